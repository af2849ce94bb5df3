package allocate

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/service"
)

// contest slows down the writes of what another writer keeps changing: the status of a Service, or
// its annotations.
//
// The allocator restores such a status. It does so at once twice, and then waits
// before each further restoration: 1 s, 2 s, 4 s and so on, up to 5 minutes. So a
// contest costs O(log t) writes in its first ten minutes, and 12 an hour after that.
// It ends when the status stays for a minute longer than the next wait. Annotations are only for
// people, so they wait longer: 10 s, 20 s, 40 s and so on.
//
// This state is lost when the process ends. The condition StatusContested tells the next
// allocator that there is a contest, see service.Ownership.Displaced.
type contest struct {
	// annotations says that the contest is about annotations.
	annotations bool
	// content is a hash of the last written content and of the Service's generation.
	content uint64
	// written is the time of the last write. It is zero before the first write.
	written time.Time
	// restored is how often the same content was written again.
	restored int
	// rival is the field manager of the other writer, "" if it is not known.
	rival string
	// reported says that an event was written for the contest.
	reported bool
}

// turn says how the allocator may write a status now.
type turn struct {
	// restoring says that the same content was written before.
	restoring bool
	// contested says that the status was restored so often that an event must report it.
	contested bool
	// wait is how long the write must wait.
	wait time.Duration
	// rest is how long the contest lasts, if the status stays as it is.
	rest time.Duration
}

const (
	// freeRestorations is the number of restorations without a wait.
	freeRestorations = 2
	// firstDelay is the wait before the first restoration that has one, annotationDelay that of
	// annotations.
	firstDelay, annotationDelay = time.Second, 10 * time.Second
	mostDelay                   = 5 * time.Minute
	calmAfter                   = time.Minute
)

// seed is the seed of the content hashes. The hashes never leave this process.
var seed = maphash.MakeSeed()

// contentOf returns a hash of result and of this generation of svc.
func contentOf(svc *corev1.Service, result service.Result) uint64 {
	return maphash.String(seed, fmt.Sprint(svc.UID, svc.Generation, result))
}

// turn returns how content may be written into the Service now.
func (c contest) turn(content uint64, now time.Time) turn {
	since := now.Sub(c.written)
	if c.written.IsZero() || c.content != content || since >= c.calm() {
		return turn{}
	}
	return turn{
		restoring: true,
		contested: c.restored >= freeRestorations,
		wait:      max(0, c.delay()-since),
		rest:      c.calm() - since,
	}
}

// after returns c after content was written into the Service.
func (c contest) after(content uint64, now time.Time) contest {
	next := contest{annotations: c.annotations, content: content, written: now}
	if c.turn(content, now).restoring {
		next.restored, next.rival, next.reported = c.restored+1, c.rival, c.reported
	}
	return next
}

// delay is how long the next restoration waits after the last write.
func (c contest) delay() time.Duration {
	n, first := c.restored-freeRestorations, firstDelay
	if c.annotations {
		n, first = c.restored, annotationDelay
	}
	if n < 0 {
		return 0
	}
	return backoff.After(n+1, first, mostDelay)
}

// calm is how long after the last write the contest ends.
func (c contest) calm() time.Duration { return c.delay() + calmAfter }

// contested returns result with a condition that says that rival keeps changing the status.
func contested(result service.Result, rival string) service.Result {
	result.Allocated, result.Reason = false, service.ReasonContested
	result.Message = result.Having(managing("another controller", rival) + " keeps changing the status of this Service, and PureLB restores it ever more slowly; " +
		"set spec.loadBalancerClass so that one of the two controllers serves the Service, or have that controller leave it alone")
	return result
}

// managing returns who, with the name of its field manager if that is known.
func managing(who, manager string) string {
	if manager == "" {
		return who
	}
	return fmt.Sprintf("%s (field manager %q)", who, manager)
}

// findRival asks the API server which other field manager wrote a part of a Service last. It returns
// "" if this is unknown. The cache cannot answer, because it drops field managers.
func (s *services) findRival(ctx context.Context, name types.NamespacedName, p part) string {
	svc := &corev1.Service{}
	if err := s.live.Get(ctx, name, svc); err != nil {
		s.log.Debug("rivalUnknown", "service", name.String(), "error", err)
		return ""
	}
	return rivalOf(svc.ManagedFields, p)
}

// part is a part of a Service that others may change: a field, and the subresource by which it is
// written.
type part struct{ field, subresource string }

var (
	statusPart     = part{`"f:loadBalancer"`, "status"}
	annotationPart = part{`"f:annotations"`, ""}
)

// rivalOf returns the manager other than PureLB that wrote the part last, or "" if there is none. A
// manager that removed all fields of the part owns none. In that case rivalOf returns the manager
// other than PureLB that wrote anything last by the same subresource.
func rivalOf(fields []metav1.ManagedFieldsEntry, p part) string {
	var last metav1.ManagedFieldsEntry
	rank := func(f metav1.ManagedFieldsEntry) int {
		switch {
		case slices.Contains(managers, f.Manager) || f.FieldsV1 == nil || f.Time == nil:
			return 0
		case strings.Contains(f.FieldsV1.GetRawString(), p.field):
			return 2
		case f.Subresource == p.subresource:
			return 1
		}
		return 0
	}
	for _, f := range fields {
		if r := rank(f); r > rank(last) || r > 0 && r == rank(last) && last.Time.Before(f.Time) {
			last = f
		}
	}
	return last.Manager
}

// managers are the field managers of PureLB. Earlier versions set none, so the API server used the
// name of the program.
var managers = []string{component, "purelb-lbnodeagent", "allocator", "lbnodeagent"}

// withContest adds the condition of a contest to result if t says that svc is contested. It
// writes one event for each contest.
func (s *services) withContest(ctx context.Context, svc *corev1.Service, m *memory, result service.Result, t turn) service.Result {
	if !t.contested {
		return result
	}
	if t.wait == 0 && m.contest.rival == "" {
		m.contest.rival = s.findRival(ctx, client.ObjectKeyFromObject(svc), statusPart)
	}
	said, rival := contested(service.Result{}, m.contest.rival).Message, m.contest.rival
	result = contested(result, rival)
	if t.wait == 0 && !m.contest.reported {
		m.contest.reported = true
		s.event(svc, corev1.EventTypeWarning, service.ReasonContested, said)
		s.log.Warn("statusContested", "service", svc.Namespace+"/"+svc.Name, "manager", rival)
	}
	return result
}

// reasonAnnotations is the reason of the event about annotations that another writer removes.
const reasonAnnotations = "AnnotationsReplaced"

// mend writes the annotations of svc, whose status is right. It reports whether it wrote, or how
// long it waits. If another writer removes them again, mend writes one event. It writes none the
// first time, because a person may remove an annotation once.
func (s *services) mend(ctx context.Context, svc *corev1.Service, m *memory, content uint64, patch []byte) (wrote bool, wait time.Duration, err error) {
	now := time.Now()
	t := m.mended.turn(content, now)
	if t.wait > 0 {
		return false, t.wait, nil
	}
	if err := s.status(ctx, svc, m, patch); err != nil {
		return false, 0, err
	}
	m.mended = m.mended.after(content, now)
	s.log.Info("annotationsMended", "service", svc.Namespace+"/"+svc.Name)
	if t.restoring && !m.mended.reported {
		m.mended.reported = true
		who := managing("another program", s.findRival(ctx, client.ObjectKeyFromObject(svc), annotationPart))
		s.event(svc, corev1.EventTypeNormal, reasonAnnotations, who+" removes or changes annotations that PureLB wrote; "+
			"the addresses stay announced, as they stand in the status, and PureLB writes the annotations again ever more slowly; "+
			"have that program leave annotations alone that it did not write")
	}
	return true, 0, nil
}
