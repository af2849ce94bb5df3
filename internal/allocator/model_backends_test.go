package allocator

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"pgregory.net/rapid"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/ipam"
)

// This file has the backend of the model, which grants the addresses of the group box. It
// also has the worker, which carries claims to the backend and answers back. Only the backend
// knows what it holds. The allocations learn that from answers, which come late, get lost, or
// are wrong.

// clusterName is the first part of the keys of claims.
const clusterName = "test"

// boxPool are the addresses that the backend hands out. In some runs one of them is that of a
// node, and one is in a pool of the group default.
var boxPool = parseAll("100.64.0.1", "100.64.0.2", "192.0.2.2", "100.64.0.3", "2001:db8:64::1", "2001:db8:64::2")

// wrongPool are addresses that a backend hands out by mistake.
var wrongPool = parseAll("192.0.2.1", "198.51.100.1", "2001:db8::1", "100.64.0.1", "100.64.0.2", "2001:db8:64::1")

func parseAll(texts ...string) []netip.Addr {
	var list []netip.Addr
	for _, text := range texts {
		list = append(list, netip.MustParseAddr(text))
	}
	return list
}

// box is the backend and the worker.
type box struct {
	m *model
	// honest says that the backend answers every request from now on, and answers correctly.
	honest bool
	// byHolder says that the backend is an IPAM server: it can give back all that a holder
	// has, and the sweep cannot ask what it holds.
	byHolder bool
	// grants are what the backend holds for our cluster, and others the addresses that
	// it holds for others.
	grants []*boxGrant
	others map[netip.Addr]bool
	// forgotten are addresses that the backend lost, and refused those that it does not
	// register.
	forgotten, refused map[netip.Addr]bool
	ids                int
	// calls are in flight. late are requests whose client has given up: the backend may still
	// carry them out.
	calls []*boxCall
	late  []func()
	// starts counts how often the worker was started.
	starts int
	// surplus are the addresses that the worker knows to be held by the backend needlessly.
	surplus []ipam.Grant
	// sweep is the one that has begun, or nil.
	sweep *boxSweep
}

// boxGrant is an address that the backend holds for a key.
type boxGrant struct {
	id  int
	key string
	ip  netip.Addr
	// by is the call that made it, or nil.
	by *boxCall
}

// boxCall is a call with several requests: claims, or grants to release.
type boxCall struct {
	claims []ipam.Claim
	grants []ipam.Grant
	// done are the answers of the requests that were carried out.
	done map[int]ipam.Answer
}

func (c *boxCall) keys() []string {
	var keys []string
	for _, claim := range c.claims {
		keys = append(keys, claim.Key)
	}
	for _, g := range c.grants {
		keys = append(keys, g.Key)
	}
	return keys
}

func newBox(m *model) *box {
	return &box{m: m, byHolder: m.backed && rapid.IntRange(0, 3).Draw(m.t, "by holder") == 3, others: map[netip.Addr]bool{}, forgotten: map[netip.Addr]bool{}, refused: map[netip.Addr]bool{}}
}

// restart ends the worker. The backend may still carry out the requests in flight.
func (b *box) restart() {
	for _, c := range b.calls {
		for i := range c.keys() {
			b.abandon(c, i)
		}
	}
	b.calls, b.surplus, b.sweep = nil, nil, nil
	b.starts++
}

// abandon gives up a request, which may be carried out later.
func (b *box) abandon(c *boxCall, i int) {
	if _, done := c.done[i]; done {
		return
	}
	if c.claims != nil {
		b.late = append(b.late, func() { b.claim(c.claims[i], nil) })
		return
	}
	// A release is for the objects that it found.
	var ids []int
	for _, g := range b.grants {
		if g.key == c.grants[i].Key && g.ip == c.grants[i].Address {
			ids = append(ids, g.id)
		}
	}
	starts := b.starts
	b.late = append(b.late, func() {
		// A worker that was started since does not know of the release. The backend may have
		// granted it the same address. The sweep registers that address again.
		b.forgotten[c.grants[i].Address] = b.forgotten[c.grants[i].Address] || b.starts != starts
		b.drop(func(g *boxGrant) bool { return slices.Contains(ids, g.id) })
	})
}

// draw chooses how something goes. An honest backend does the first.
func (b *box) draw(label string, ways ...string) string {
	if b.honest {
		return ways[0]
	}
	return rapid.SampledFrom(ways).Draw(b.m.t, label)
}

// The backend.

func (b *box) holderOf(ip netip.Addr) *boxGrant {
	return b.find(func(g *boxGrant) bool { return g.ip == ip })
}

func (b *box) find(is func(*boxGrant) bool) *boxGrant {
	if i := slices.IndexFunc(b.grants, is); i >= 0 {
		return b.grants[i]
	}
	return nil
}

func (b *box) drop(is func(*boxGrant) bool) { b.grants = slices.DeleteFunc(b.grants, is) }

// free are the addresses of a family that the backend can grant.
func (b *box) free(f addr.Family) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(boxPool), func(ip netip.Addr) bool {
		return addr.FamilyOf(ip) != f || b.others[ip] || b.holderOf(ip) != nil
	})
}

// claim carries out a claim. A key has one address at most.
func (b *box) claim(c ipam.Claim, by *boxCall) ipam.Answer {
	has := b.find(func(g *boxGrant) bool { return g.key == c.Key })
	way := b.draw("claim", "well", "well", "well", "well", "refuse", "wrong", "double")
	free := b.free(c.Family)
	switch {
	case way == "refuse":
		return boxError(rapid.SampledFrom([]ipam.Kind{ipam.KindExhausted, ipam.KindTaken, ipam.KindInvalid}).Draw(b.m.t, "kind"))
	case has != nil && c.Address.IsValid() && has.ip != c.Address:
		a := boxError(ipam.KindInvalid)
		a.Surplus = []netip.Addr{has.ip}
		return a
	case has != nil:
		return ipam.Answer{Grant: ipam.Grant{Key: c.Key, Address: has.ip}}
	case way == "wrong":
		return b.grant(c.Key, rapid.SampledFrom(wrongPool).Draw(b.m.t, "wrong"), by)
	case c.Address.IsValid() && !slices.Contains(boxPool, c.Address):
		return boxError(ipam.KindInvalid)
	case c.Address.IsValid() && way != "double" && !slices.Contains(free, c.Address):
		return boxError(ipam.KindTaken)
	case c.Address.IsValid():
		return b.grant(c.Key, c.Address, by)
	case len(free) == 0:
		return boxError(ipam.KindExhausted)
	case b.honest:
		return b.grant(c.Key, free[0], by)
	}
	return b.grant(c.Key, rapid.SampledFrom(free).Draw(b.m.t, "grant"), by)
}

func (b *box) grant(key string, ip netip.Addr, by *boxCall) ipam.Answer {
	b.ids++
	b.grants = append(b.grants, &boxGrant{id: b.ids, key: key, ip: ip, by: by})
	return ipam.Answer{Grant: ipam.Grant{Key: key, Address: ip}}
}

func boxError(kind ipam.Kind) ipam.Answer { return ipam.Answer{Err: boxFault(kind)} }

func boxFault(kind ipam.Kind) *ipam.Error {
	return &ipam.Error{Kind: kind, Message: "the backend says " + string(kind)}
}

// carryOut carries out a request of a call.
func (b *box) carryOut(c *boxCall, i int) {
	if _, done := c.done[i]; done {
		return
	}
	if c.claims != nil {
		c.done[i] = b.claim(c.claims[i], c)
		return
	}
	b.drop(func(g *boxGrant) bool { return g.key == c.grants[i].Key && g.ip == c.grants[i].Address })
	c.done[i] = ipam.Answer{}
}

// forget loses a grant, or has another cluster take or free an address.
func (b *box) forget() {
	if len(b.grants) > 0 && rapid.Bool().Draw(b.m.t, "ours") {
		g := rapid.SampledFrom(b.grants).Draw(b.m.t, "forget")
		b.forgotten[g.ip] = true
		b.drop(func(other *boxGrant) bool { return other == g })
		return
	}
	ip := rapid.SampledFrom(boxPool).Draw(b.m.t, "another's")
	b.others[ip] = !b.others[ip] && b.holderOf(ip) == nil
}

// arrive carries out a request whose client has given up, or drops it.
func (b *box) arrive() {
	if len(b.late) == 0 {
		return
	}
	i := 0
	if !b.honest {
		i = rapid.IntRange(0, len(b.late)-1).Draw(b.m.t, "late")
	}
	request := b.late[i]
	b.late = slices.Delete(b.late, i, i+1)
	if b.draw("late request", "done", "lost") == "done" {
		request()
	}
}

// The worker.

const mostOfCall = 3

// send begins a call with claims. Refused claims are among them if the time for them has
// come.
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

// someCall is one in flight, or nil.
func (b *box) someCall() *boxCall {
	if len(b.calls) == 0 {
		return nil
	}
	return rapid.SampledFrom(b.calls).Draw(b.m.t, "call")
}

// work carries out a request in flight, which has no answer yet.
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

// answerOf is what the worker hears of a request.
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

// answered brings the answers to claims. As the worker of package backends does, it keeps
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

// releaseSurplus releases what the backend holds too much, unless the cluster has it.
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
		}
	}
	b.surplus = failed
	return some
}

// dismiss forgets the holders that have left. A backend that knows holders gives back all that
// they have. With another, the sweep finds it.
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

// releaseAll gives back all that a holder has. That may be an address of another Service whose
// grant the backend has lost.
func (b *box) releaseAll(holder string) {
	for _, g := range b.grants {
		if ipam.HolderOf(g.key) == holder && !b.forgotten[g.ip] {
			b.m.checkRelease(ipam.Grant{Key: g.key, Address: g.ip})
		}
	}
	b.drop(func(g *boxGrant) bool { return ipam.HolderOf(g.key) == holder })
}

// boxHold is what the sweep compares of a grant.
func boxHold(g ipam.Grant) string { return fmt.Sprint(g.Key, " ", g.Address) }

// boxSweep is a sweep that has read what the cluster has and what the backend holds.
type boxSweep struct {
	before map[string]ipam.Grant
	// listed are the grants that the backend holds. A request in flight may have made those
	// that are young.
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

// holds are what the cluster has of the backend.
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
	b.m.allocations.Orphans("box", orphans)
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

// rest lets the backend and the worker do all that there is to do.
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

// calm lets the backend answer everything, and runs the sweep twice.
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

// boxSteps are what the backend and the worker do.
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
			case b.byHolder: // Such a backend is not swept.
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
