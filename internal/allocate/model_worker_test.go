package allocate

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/service"
)

// This file has the worker of the model. It carries claims to the backend and answers back.

// someDue returns a holder in the queue that has no request in flight.
func (b *box) someDue() (ipam.Holder, bool) {
	due := slices.DeleteFunc(slices.Clone(b.due), b.busy)
	if len(due) == 0 {
		return ipam.Holder{}, false
	}
	return rapid.SampledFrom(due).Draw(b.m.t, "holder"), true
}

// resume queues all holders that have work, as a worker does when it starts.
func (b *box) resume() { b.due = b.m.allocations.Pending("box") }

// retry queues the holders whose last request failed.
func (b *box) retry() {
	b.due = append(b.due, b.failed...)
	b.failed = nil
}

func (b *box) busy(h ipam.Holder) bool {
	return slices.ContainsFunc(b.calls, func(c *boxCall) bool { return c.holder == h })
}

// serve takes the work of a holder in the queue.
func (b *box) serve(h ipam.Holder) {
	b.due = slices.DeleteFunc(slices.Clone(b.due), func(other ipam.Holder) bool { return other == h })
	w := b.m.allocations.Work(h)
	for _, g := range w.Release {
		b.m.checkRelease(g)
	}
	if len(w.Claims)+len(w.Release) > 0 {
		b.calls = append(b.calls, &boxCall{holder: h, claims: w.Claims, grants: w.Release, done: map[int]ipam.Answer{}})
	}
}

// someCall returns a call in flight, or nil.
func (b *box) someCall() *boxCall {
	if len(b.calls) == 0 {
		return nil
	}
	return rapid.SampledFrom(b.calls).Draw(b.m.t, "call")
}

// work performs a request in flight that has no answer yet.
func (b *box) work() {
	if c := b.someCall(); c != nil {
		b.carryOut(c, rapid.IntRange(0, len(c.keys())-1).Draw(b.m.t, "request"))
	}
}

// answer ends a call.
func (b *box) answer(c *boxCall) {
	if c == nil {
		return
	}
	b.calls = slices.DeleteFunc(b.calls, func(other *boxCall) bool { return other == c })
	var answers []ipam.Answer
	var errs []error
	for i := range c.keys() {
		answers = append(answers, b.answerOf(c, i))
		errs = append(errs, answers[i].Err)
	}
	if c.claims != nil {
		for i, claim := range c.claims {
			if b.honest && claim.Address.IsValid() {
				b.refused[claim.Address] = answers[i].Err != nil
			}
		}
		b.later(c.holder, b.m.allocations.Answered(c.holder, c.claims, answers), errs)
		return
	}
	b.later(c.holder, b.m.allocations.Released(c.holder, c.grants, errs), errs)
}

// later queues a holder whose request is over, as group.work does: at once if it has more work, and after a
// pause if something failed. After a fault of the backend, the pause comes first.
func (b *box) later(h ipam.Holder, next ipam.Due, errs []error) {
	fault := slices.ContainsFunc(errs, func(err error) bool {
		return err != nil && slices.Contains(boxFaults, ipam.AsError(err).Kind)
	})
	if next == ipam.DueLater || slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
		b.failed = append(b.failed, h)
	}
	if next == ipam.DueNow && !fault {
		b.due = append(b.due, h)
	}
}

// answerOf returns the worker's answer to a request.
func (b *box) answerOf(c *boxCall, i int) ipam.Answer {
	way := b.draw("answer", "well", "well", "well", "lost", "late", "away")
	_, done := c.done[i]
	switch {
	case way == "well":
		b.carryOut(c, i)
		return c.done[i]
	case way == "lost":
		b.carryOut(c, i)
	case way == "late":
		b.abandon(c, i)
	case !done:
		return boxError(rapid.SampledFrom([]ipam.Kind{ipam.KindUnavailable, ipam.KindMisconfigured}).Draw(b.m.t, "kind"))
	}
	return boxError(ipam.KindUnknown)
}

// boxHold returns the part of a grant that the sweep compares.
func boxHold(g ipam.Grant) string { return fmt.Sprint(g.Key, " ", g.Address) }

// boxSweep is a sweep that has read what the cluster has and what the backend holds.
type boxSweep struct {
	before map[string]ipam.Grant
	// listed are the grants that the backend holds. A request in flight may have made the
	// young ones.
	listed map[string]ipam.Grant
	young  map[string]bool
}

func (b *box) beginSweep() {
	s := &boxSweep{before: b.holds(), listed: map[string]ipam.Grant{}, young: map[string]bool{}}
	for _, g := range b.grants {
		grant := ipam.Grant{Key: g.key, Address: g.ip}
		s.listed[boxHold(grant)] = grant
		s.young[boxHold(grant)] = g.by != nil && slices.Contains(b.calls, g.by)
	}
	b.sweep = s
}

// holds returns what the cluster has from the backend.
func (b *box) holds() map[string]ipam.Grant {
	held := map[string]ipam.Grant{}
	for _, g := range b.m.allocations.Holds()["box"] {
		held[boxHold(g)] = g
	}
	return held
}

// endSweep compares what was read with what the cluster has now.
func (b *box) endSweep() {
	s, after := b.sweep, b.holds()
	b.sweep = nil
	var orphans, missing []ipam.Grant
	for _, hold := range sortedKeys(s.listed) {
		_, before := s.before[hold]
		_, now := after[hold]
		if !before && !now && !s.young[hold] {
			orphans = append(orphans, s.listed[hold])
		}
	}
	for _, hold := range sortedKeys(s.before) {
		_, listed := s.listed[hold]
		_, now := after[hold]
		if now && !listed {
			missing = append(missing, s.before[hold])
		}
	}
	b.orphans = map[string]bool{}
	for _, g := range b.m.allocations.Compared("box", orphans, missing) {
		b.orphans[boxHold(g)] = true
	}
}

func sortedKeys(grants map[string]ipam.Grant) []string {
	var keys []string
	for key := range grants {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// rest makes the backend and the worker finish all their work. What failed is tried again a few times.
func (b *box) rest() {
	retries := 5
	for range 100 {
		for len(b.calls) > 0 {
			b.answer(b.calls[0])
		}
		for len(b.late) > 0 {
			b.arrive()
		}
		b.m.quiet()
		if len(b.due) == 0 {
			if retries--; retries == 0 {
				return
			}
			b.retry()
			b.m.remind()
		}
		for len(b.due) > 0 {
			b.serve(b.due[0])
		}
	}
	b.m.t.Fatal("the worker of the backend does not come to rest")
}

// remind makes the loop look at the Services that wait for a release, as it does after departurePause.
func (m *model) remind() {
	for who, svc := range m.live {
		if service.Bound(svc) && (svc.DeletionTimestamp != nil || svc.Spec.Type != corev1.ServiceTypeLoadBalancer) {
			m.queue[who] = true
		}
	}
}

// calm makes the backend answer everything, and runs the sweep twice.
func (m *model) calm() {
	m.box.honest = true
	m.allocations.noteFault("box", nil)
	m.box.rest()
	for range 2 {
		m.box.beginSweep()
		m.box.endSweep()
		m.box.rest()
	}
	m.box.honest = false
}

// boxSteps are the steps of the backend and the worker.
func (m *model) boxSteps() map[string]func(*rapid.T) {
	b := m.box
	return map[string]func(*rapid.T){
		"serve": func(*rapid.T) {
			if h, ok := b.someDue(); ok {
				b.serve(h)
			}
		},
		"retry":  func(*rapid.T) { b.retry() },
		"work":   func(*rapid.T) { b.work() },
		"answer": func(*rapid.T) { b.answer(b.someCall()) },
		"late":   func(*rapid.T) { b.arrive() },
		"forget": func(*rapid.T) { b.forget() },
		"fault": func(t *rapid.T) {
			kind := rapid.SampledFrom(boxFaults).Draw(t, "kind")
			m.allocations.noteFault("box", boxFault(kind))
		},
		"sweep": func(*rapid.T) {
			if b.sweep == nil {
				b.beginSweep()
			} else {
				b.endSweep()
			}
		},
		"calm": func(*rapid.T) {
			m.calm()
			m.checkQuiet()
			m.checkBox()
			m.checkDeparted()
		},
	}
}
