package allocator

import (
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"purelb.io/purelb/internal/ipam"
)

// This file has the worker of the model. It carries claims to the backend and answers back.

const mostOfCall = 3

// send begins a call with claims. With rested, it includes refused claims whose pause is
// over.
func (b *box) send(rested bool) bool {
	claims := b.m.allocations.cluster.Claims
	var list []ipam.Claim
	if rested {
		list = claims.Next("box", mostOfCall, time.Now().Add(time.Hour))
	} else {
		list = b.m.allocations.Wanted("box", mostOfCall)
	}
	if len(list) > 0 {
		b.begin(&boxCall{claims: list, done: map[int]ipam.Answer{}})
	}
	return len(list) > 0
}

// giveBack begins a call with releases.
func (b *box) giveBack() bool {
	grants := b.m.allocations.Releasing("box", mostOfCall)
	for _, g := range grants {
		b.m.checkRelease(g)
	}
	if len(grants) > 0 {
		b.begin(&boxCall{grants: grants, done: map[int]ipam.Answer{}})
	}
	return len(grants) > 0
}

// begin sends a call. It fails if another call with one of its keys is in flight.
func (b *box) begin(c *boxCall) {
	seen := map[string]bool{}
	for _, other := range b.calls {
		for _, key := range other.keys() {
			seen[key] = true
		}
	}
	for _, key := range c.keys() {
		if seen[key] {
			b.m.t.Fatalf("a call with the key %s is sent while another is in flight", key)
		}
		seen[key] = true
	}
	b.calls = append(b.calls, c)
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
	for i := range c.keys() {
		answers = append(answers, b.answerOf(c, i))
	}
	if c.claims != nil {
		b.answered(c, answers)
		return
	}
	var errs []error
	for _, a := range answers {
		errs = append(errs, a.Err)
	}
	b.m.allocations.Released("box", c.grants, errs)
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

// answered delivers the answers to claims. Like the worker of package backends, it holds
// back a grant that it is releasing as surplus.
func (b *box) answered(c *boxCall, answers []ipam.Answer) {
	for i, a := range answers {
		if claim := c.claims[i]; b.honest && claim.Address.IsValid() {
			b.refused[claim.Address] = a.Err != nil
		}
		if a.Err == nil && slices.ContainsFunc(b.surplus, func(g ipam.Grant) bool { return boxHold(g) == boxHold(a.Grant) }) {
			answers[i] = boxError(ipam.KindUnavailable)
		}
	}
	b.m.allocations.Answered("box", c.claims, answers)
	for i, a := range answers {
		for _, ip := range a.Surplus {
			b.surplus = append(b.surplus, ipam.Grant{Key: c.claims[i].Key, Address: ip})
		}
	}
}

// releaseSurplus releases what the backend holds needlessly, unless the cluster has it.
func (b *box) releaseSurplus() (some bool) {
	grants, _ := b.m.allocations.Holds()
	var failed []ipam.Grant
	for _, g := range b.surplus {
		if slices.ContainsFunc(grants["box"], func(held ipam.Grant) bool { return boxHold(held) == boxHold(g) }) || b.m.allocations.Has(g.Address) {
			continue
		}
		some = true
		c := &boxCall{grants: []ipam.Grant{g}, done: map[int]ipam.Answer{}}
		if a := b.answerOf(c, 0); a.Err != nil {
			failed = append(failed, g)
		} else {
			b.m.allocations.Freed("box")
		}
	}
	b.surplus = failed
	return some
}

// dismiss forgets the holders that have left. A backend that knows holders gives back
// everything that they have. For other backends, the sweep finds it.
func (b *box) dismiss() bool {
	keys := b.m.allocations.Departed("box", mostOfCall)
	errs := make([]error, len(keys))
	for i := range errs {
		way := b.draw("dismiss", "well", "lost", "away")
		if way != "well" {
			errs[i] = boxFault(ipam.KindUnavailable)
		}
		if way != "away" && b.byHolder {
			b.releaseAll(ipam.HolderOf(keys[i]))
		}
	}
	b.m.allocations.Dismissed("box", keys, errs)
	return len(keys) > 0
}

// releaseAll gives back everything that a holder has. It may include an address of another
// Service whose grant the backend has lost.
func (b *box) releaseAll(holder string) {
	for _, g := range b.grants {
		if ipam.HolderOf(g.key) == holder && !b.forgotten[g.ip] {
			b.m.checkRelease(ipam.Grant{Key: g.key, Address: g.ip})
		}
	}
	b.drop(func(g *boxGrant) bool { return ipam.HolderOf(g.key) == holder })
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
	grants, _ := b.m.allocations.Holds()
	for _, g := range grants["box"] {
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
	for _, g := range b.m.allocations.Learn("box", orphans) {
		b.orphans[boxHold(g)] = true
	}
	b.m.allocations.Register("box", missing)
}

func sortedKeys(grants map[string]ipam.Grant) []string {
	var keys []string
	for key := range grants {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// rest makes the backend and the worker finish all their work.
func (b *box) rest() {
	for n := range 100 {
		for len(b.calls) > 0 {
			b.answer(b.calls[0])
		}
		for len(b.late) > 0 {
			b.arrive()
		}
		b.m.quiet()
		back, surplus, gone := b.giveBack(), b.releaseSurplus(), b.dismiss()
		if sent := b.send(n == 0); !back && !surplus && !gone && !sent {
			return
		}
	}
	b.m.t.Fatal("the worker of the backend does not come to rest")
}

// calm makes the backend answer everything, and runs the sweep twice.
func (m *model) calm() {
	m.box.honest = true
	m.allocations.noteFault("box", nil)
	m.box.rest()
	for range 2 {
		if m.box.byHolder {
			break
		}
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
		"send":      func(t *rapid.T) { b.send(rapid.Bool().Draw(t, "rested")) },
		"give back": func(*rapid.T) { b.giveBack() },
		"work":      func(*rapid.T) { b.work() },
		"answer":    func(*rapid.T) { b.answer(b.someCall()) },
		"late":      func(*rapid.T) { b.arrive() },
		"forget":    func(*rapid.T) { b.forget() },
		"surplus": func(*rapid.T) {
			b.releaseSurplus()
			b.dismiss()
		},
		"fault": func(t *rapid.T) {
			kind := rapid.SampledFrom([]ipam.Kind{ipam.KindUnavailable, ipam.KindMisconfigured, ipam.KindUnknown}).Draw(t, "kind")
			m.allocations.noteFault("box", boxFault(kind))
		},
		"sweep": func(*rapid.T) {
			switch {
			case b.byHolder: // There is no sweep for such a backend.
			case b.sweep == nil:
				b.beginSweep()
			default:
				b.endSweep()
			}
		},
		"calm": func(*rapid.T) {
			m.calm()
			m.checkQuiet()
			m.checkBox()
		},
	}
}
