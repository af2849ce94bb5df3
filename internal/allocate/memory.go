package allocate

import (
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// memories hold what the loop of Services keeps about each Service between two rounds.
//
// The loop reads the state of the world again in each round. A memory holds only facts that the API
// server does not know: the outcome of the allocator's last write, how often it repeated a write,
// and which facts it has reported. A new process has none of these. The write gate protects it
// from the writes of earlier processes.
type memories struct {
	mu sync.Mutex
	of map[types.NamespacedName]*memory
	// delayed are the Services whose last round ended without the intended write. /state shows
	// them.
	delayed map[types.NamespacedName]delayed
}

// delayed says why the status of a Service is not written for now.
type delayed struct {
	why string
	// until is when it is written at the latest. It is zero if that is not known.
	until time.Time
}

// memory is what the loop keeps of one Service. One worker at a time looks at a
// Service, so a memory needs no lock.
type memory struct {
	// replaced is the version that the last write has replaced, for as long as the cache may still
	// have it.
	replaced string
	// settled is when the writes have ended that failed since the last successful one. Until then,
	// one of them may still take effect, so the addresses of the Service are not freed.
	settled time.Time
	// contest counts the writes that repeat each other. mended counts those of annotations only.
	contest, mended contest
	// reevaluated are the times in the last hour at which the Service was re-evaluated, and the
	// annotation that asked for it was removed.
	reevaluated []time.Time
	// refusal is the API server's message when it refused a write. The message was reported in an
	// event. An admission policy or a webhook may refuse a write, so the condition of the Service
	// cannot report this.
	refusal string
	// warned is when the refusal of the Service was last told in an event, or was first seen by
	// this process. It is zero without a refusal.
	warned time.Time
	// removed are the addresses of others that were removed from the status and told in an event.
	removed string
	// policyReset says that the allocator has reset the external traffic policy. It does so
	// only once. If the policy is Local again later, a tool that enforces the manifest has
	// set it back, and the allocator does not fight that tool.
	policyReset bool
}

// at returns the memory of the Service of this name, for a new round of the loop.
func (m *memories) at(name types.NamespacedName) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.delayed, name)
	if m.of == nil {
		m.of = map[types.NamespacedName]*memory{}
	}
	if m.of[name] == nil {
		m.of[name] = &memory{mended: contest{annotations: true}}
	}
	return m.of[name]
}

// forget forgets a Service that is gone.
func (m *memories) forget(name types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, name)
	delete(m.delayed, name)
}

// delay notes that the status of a Service is not written for now.
func (m *memories) delay(name types.NamespacedName, d delayed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.delayed == nil {
		m.delayed = map[types.NamespacedName]delayed{}
	}
	m.delayed[name] = d
}

// delays returns the delayed Services.
func (m *memories) delays() map[types.NamespacedName]delayed {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.delayed)
}

// note notes the outcome of a write of svc. after is the Service after the write, nil on an
// error. A successful write replaces the version that all earlier ones are for, so they must fail.
func (m *memory) note(svc, after *corev1.Service, err error) {
	switch {
	case err != nil:
		m.replaced, m.settled = "", time.Now().Add(writeEnds)
	case after.ResourceVersion != svc.ResourceVersion:
		m.replaced, m.settled = svc.ResourceVersion, time.Time{}
	}
}

// outdates reports whether the last write has replaced the version of svc, which comes from
// the cache.
func (m *memory) outdates(svc *corev1.Service) bool {
	if m.replaced != svc.ResourceVersion {
		m.replaced = ""
	}
	return m.replaced != ""
}

// isNewRefusal stores the API server's message about a refused write, and reports whether
// it differs from the last one.
func (m *memory) isNewRefusal(said string) bool {
	is := m.refusal != said
	m.refusal = said
	return is
}

// mostReevaluations is how often in an hour PureLB removes the annotation that asks to re-evaluate
// a Service. A person sets it again to have an effect again. A tool sets it again for ever: then it
// stays, and the record of the Service says that it has had its effect.
const mostReevaluations = 3

// mayReevaluate reports whether a re-evaluation at the time now may remove its annotation.
func (m *memory) mayReevaluate(now time.Time) bool {
	m.reevaluated = slices.DeleteFunc(m.reevaluated, func(t time.Time) bool { return now.Sub(t) > time.Hour })
	return len(m.reevaluated) < mostReevaluations
}

// remindAfter is how often the refusal of a Service that still waits is told again. The API server
// keeps an event for an hour, and kubectl describe shows no conditions of a Service.
const remindAfter = 50 * time.Minute

// remind reports whether the refusal of a Service must be told again at the time now, and how long
// after that it must be told the next time. A process that has just started tells nothing.
func (m *memory) remind(refused bool, now time.Time) (tell bool, next time.Duration) {
	if !refused {
		m.warned = time.Time{}
		return false, 0
	}
	tell = !m.warned.IsZero() && now.Sub(m.warned) >= remindAfter
	if tell || m.warned.IsZero() {
		m.warned = now
	}
	return tell, remindAfter - now.Sub(m.warned)
}
