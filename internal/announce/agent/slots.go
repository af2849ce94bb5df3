package agent

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/workqueue"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/service"
)

// Write is a change of the annotations of one Service.
type Write struct {
	Namespace, Name string
	// Version is the resourceVersion for which Patch is valid.
	Version string
	// Patch is a merge patch of services/status.
	Patch string
	// Change is the part of Patch that changes annotations, and the UID of the Service: one that was deleted
	// and made anew gets its slot at once. It is "" if the annotations name another node for an address of this
	// one: then the write must not wait, because all nodes take that node for the holder.
	Change string
	// Done, if set, is called after the write succeeded.
	Done func()
}

// same reports whether w and v write the same.
func (w Write) same(v Write) bool { return w.Version == v.Version && w.Patch == v.Patch }

// write returns the write that makes the annotations of svc match the decisions. ok is false
// if they match already.
func (r *reporter) write(svc *Service, decisions []announce.Decision) (w Write, ok bool) {
	change, stolen := slotChanges(svc, r.node, decisions)
	if len(change) == 0 {
		return Write{}, false
	}
	name := svc.name()
	w = Write{
		Namespace: name.Namespace, Name: name.Name, Version: svc.Version,
		Patch: slotPatch(svc, change),
		Done: func() {
			for _, s := range stolen {
				r.stolen(svc, s.Node, s.Address)
			}
		},
	}
	if len(stolen) == 0 {
		w.Change = slotPatch(&Service{UID: svc.UID}, change)
	}
	return w, true
}

// slotChanges returns how the announcing annotations of svc must change to show what this
// node announces. A nil value deletes an annotation. stolen are the slots that this node
// takes from other nodes.
func slotChanges(svc *Service, node string, decisions []announce.Decision) (change map[string]*string, stolen []service.Slot) {
	for _, f := range []addr.Family{addr.V4, addr.V6} {
		slots := slices.DeleteFunc(slices.Clone(svc.Slots), func(s service.Slot) bool { return addr.FamilyOf(s.Address) != f })
		mine := slotsOf(node, f, decisions)
		if slices.Equal(mine, ofNode(slots, node)) {
			continue // other nodes write the slots of addresses that only they announce
		}
		slots = slices.DeleteFunc(slots, func(s service.Slot) bool { return s.Node == node })
		for _, s := range mine {
			if other, taken := service.SlotOf(slots, s.Address); taken {
				stolen = append(stolen, other)
			}
			slots = service.SetSlot(slots, s)
		}
		if change == nil {
			change = map[string]*string{}
		}
		name := service.AnnotationAnnouncing(f)
		change[name] = nil
		if text := service.EncodeSlots(service.LiveSlots(slots, svc.Addresses)); text != "" {
			change[name] = &text
		}
	}
	return change, stolen
}

// asWritten returns d as the slots of svc show it now. While an address comes or goes, the
// agent does not change its annotation.
func asWritten(svc *Service, node string, d announce.Decision) announce.Decision {
	d.Where = announce.Nowhere
	if slot, ok := service.SlotOf(svc.Slots, d.IP); ok && slot.Node == node {
		d.Where, d.Address.Link = announce.Local, slot.Interface
	}
	return d
}

// slotsOf returns the slots of family f that decisions give to this node, in the order of the
// annotation.
func slotsOf(node string, f addr.Family, decisions []announce.Decision) []service.Slot {
	var mine []service.Slot
	for _, d := range decisions {
		if d.Where == announce.Local && addr.FamilyOf(d.IP) == f {
			mine = append(mine, service.Slot{Node: node, Interface: d.Address.Link, Address: d.IP})
		}
	}
	slices.SortFunc(mine, byAddress)
	return mine
}

// ofNode returns the slots that belong to node, in the same order.
func ofNode(slots []service.Slot, node string) []service.Slot {
	own := slices.DeleteFunc(slices.Clone(slots), func(s service.Slot) bool { return s.Node != node })
	slices.SortStableFunc(own, byAddress)
	return own
}

func byAddress(a, b service.Slot) int { return a.Address.Compare(b.Address) }

// slotPatch returns the merge patch that changes annotations of this version of svc.
func slotPatch(svc *Service, change map[string]*string) string {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": svc.UID, "resourceVersion": svc.Version, "annotations": change,
	}})
	if err != nil {
		panic(err) // cannot fail: the value has only strings
	}
	return string(patch)
}

// Slots writes annotations, several Services at a time, so that a slow API server does not
// delay the kernel. A program that owns a Service may remove them again and again. Then Slots
// writes them again 10 s, 20 s, 40 s and so on after its last write, up to 5 minutes: the address is
// announced all the time. Slots keeps its last writes in memory for that.
// It is safe for concurrent use.
type Slots struct {
	services typedcorev1.ServicesGetter
	metrics  *Metrics
	log      *slog.Logger
	queue    workqueue.TypedRateLimitingInterface[string]

	mu sync.Mutex
	// wanted holds the writes until the caches show them.
	wanted map[string]*wanted
	// repeats holds the last write of each Service, for as long as it delays another one.
	repeats map[string]repeat
}

// wanted is a Write. tried says that it needs no retry.
type wanted struct {
	Write
	tried bool
}

// repeat is a write that another program may undo.
type repeat struct {
	change string
	at     time.Time
	// times is how often the same change was written again.
	times int
}

const (
	firstRepeat, longestRepeat = 10 * time.Second, 5 * time.Minute
	// repeatsEnd is how long after the longest wait a change counts as a new one.
	repeatsEnd = time.Minute
)

// pause is how long after r the same change is written again.
func (r repeat) pause() time.Duration {
	return backoff.After(r.times+1, firstRepeat, longestRepeat)
}

// repeats reports whether a write of change at the time now repeats r.
func (r repeat) repeats(change string, now time.Time) bool {
	return change != "" && r.change == change && now.Sub(r.at) < r.pause()+repeatsEnd
}

const (
	slotWriters = 8
	slotTimeout = 10 * time.Second
)

// NewSlots returns Slots that write nothing before Run.
func NewSlots(services typedcorev1.ServicesGetter, metrics *Metrics, log *slog.Logger) *Slots {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](50*time.Millisecond, 30*time.Second)
	return &Slots{
		services: services, metrics: metrics, log: log,
		queue:  workqueue.NewTypedRateLimitingQueue(limiter),
		wanted: map[string]*wanted{}, repeats: map[string]repeat{},
	}
}

// Want replaces all pending writes by writes.
func (s *Slots) Want(writes map[string]Write) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(s.wanted, func(key string, _ *wanted) bool { _, still := writes[key]; return !still })
	maps.DeleteFunc(s.repeats, func(_ string, r repeat) bool { return !r.repeats(r.change, now) })
	for key, w := range writes {
		if before := s.wanted[key]; before == nil || !before.same(w) {
			s.wanted[key] = &wanted{Write: w}
			s.queue.AddAfter(key, s.due(key, w))
		}
	}
}

// due returns how long the write w for key must wait.
func (s *Slots) due(key string, w Write) time.Duration {
	now := time.Now()
	if last := s.repeats[key]; last.repeats(w.Change, now) {
		return last.pause() - now.Sub(last.at)
	}
	return 0
}

// Run writes until ctx is done.
func (s *Slots) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for range slotWriters {
		wg.Go(func() { s.work(ctx) })
	}
	<-ctx.Done()
	s.queue.ShutDown()
	wg.Wait()
	return nil
}

func (s *Slots) work(ctx context.Context) {
	for {
		key, shutdown := s.queue.Get()
		if shutdown {
			return
		}
		if s.write(ctx, key) {
			s.queue.Forget(key)
		} else {
			s.queue.AddRateLimited(key)
		}
		s.queue.Done(key)
	}
}

// write performs the pending write for key, and reports whether no retry is needed. A conflict
// needs no retry: the Service has changed, and the next pass decides by its new version.
func (s *Slots) write(ctx context.Context, key string) bool {
	s.mu.Lock()
	w := s.wanted[key]
	if w == nil || w.tried {
		s.mu.Unlock()
		return true
	}
	wait := s.due(key, w.Write)
	s.mu.Unlock()
	if wait > 0 {
		s.queue.AddAfter(key, wait)
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, slotTimeout)
	defer cancel()
	_, err := s.services.Services(w.Namespace).Patch(ctx, w.Name, types.MergePatchType, []byte(w.Patch), metav1.PatchOptions{}, "status")
	switch {
	case err == nil:
		s.metrics.updates.Inc()
		s.finish(key, w, true)
		return true
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		s.finish(key, w, false)
		return true
	}
	s.metrics.updateErrors.Inc()
	s.log.WarnContext(ctx, "annotationNotWritten", "service", key, "error", err)
	return false
}

// finish records that w needs no retry. written says that it succeeded.
func (s *Slots) finish(key string, w *wanted, written bool) {
	s.mu.Lock()
	w.tried = true
	if written {
		s.note(key, w.Change, time.Now())
	}
	s.mu.Unlock()
	if written && w.Done != nil {
		w.Done()
	}
}

// note notes that change was written for key at the time now.
func (s *Slots) note(key, change string, now time.Time) {
	r := repeat{change: change, at: now}
	if last := s.repeats[key]; last.repeats(change, now) {
		r.times = last.times + 1
	}
	s.repeats[key] = r
}
