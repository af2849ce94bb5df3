package allocate

import (
	"net/netip"
	"slices"

	"pgregory.net/rapid"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
)

// This file has the backend of the model. It grants the addresses of the group box. Only
// the backend knows what it holds: the allocations learn that from answers, which may be
// late, lost or wrong.

// clusterName is the first part of the keys of claims.
const clusterName = "test"

// boxPool are the addresses that the backend hands out. In some runs, one of them belongs
// to a node, and one is in a pool of the group default.
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
	// honest says that, from now on, the backend answers every request, and answers
	// correctly.
	honest bool
	// grants are the addresses that the backend holds for our cluster. others are those
	// that it holds for others.
	grants []*boxGrant
	others map[netip.Addr]bool
	// forgotten are addresses that the backend has lost. refused are addresses that it
	// refuses to register.
	forgotten, refused map[netip.Addr]bool
	// calls are in flight. late are requests whose client has given up: the backend may
	// still perform them.
	calls []*boxCall
	late  []func()
	// due are the holders in the queue of the worker, and failed those that come into it again after a
	// pause.
	due, failed []ipam.Holder
	// starts counts how often the worker was started.
	starts int
	// sent is the worker that sent the request that is being performed. arriving says that its client has
	// given up.
	sent     int
	arriving bool
	// sweep is the running sweep, or nil. orphans are those that the last sweep counted.
	sweep   *boxSweep
	orphans map[string]bool
}

// boxGrant is an address that the backend holds for a key.
type boxGrant struct {
	key string
	ip  netip.Addr
	// by is the call that made the grant, or nil. starts is the last worker that asked for it. late says that
	// none has asked for it since a late request made it.
	by     *boxCall
	starts int
	late   bool
	// lost says that the worker need not give the grant back, and that a sweep counts it then. The backend granted
	// the address to two keys. Or the worker began after the sharing key of the Service changed: it knows only the claim
	// of the new key.
	lost bool
}

// boxCall is a call with the requests of a holder: claims or releases.
type boxCall struct {
	holder ipam.Holder
	claims []ipam.Claim
	grants []ipam.Grant
	// done are the answers to the requests that were performed.
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
	return &box{m: m, others: map[netip.Addr]bool{}, forgotten: map[netip.Addr]bool{}, refused: map[netip.Addr]bool{}}
}

// restart ends the worker. The backend may still perform the requests in flight.
func (b *box) restart() {
	for _, c := range b.calls {
		for i := range c.keys() {
			b.abandon(c, i)
		}
	}
	b.calls, b.sweep, b.failed = nil, nil, nil
	b.starts++
	b.sent = b.starts
}

// abandon gives up a request. It may still be performed later.
func (b *box) abandon(c *boxCall, i int) {
	if _, done := c.done[i]; done {
		return
	}
	if c.claims != nil {
		starts := b.starts
		b.late = append(b.late, func() {
			b.sent, b.arriving = starts, true
			b.claim(c.claims[i], nil)
			b.sent, b.arriving = b.starts, false
		})
		return
	}
	// A release names the objects that it found.
	found, starts := b.named(c.grants[i]), b.starts
	b.late = append(b.late, func() {
		// A worker that was started since does not know of the release. The backend may
		// have granted it the same address. The sweep registers that address again.
		for _, g := range found {
			b.forgotten[g.ip] = b.forgotten[g.ip] || b.starts != starts
		}
		b.drop(found)
	})
}

// named returns the grants that a release of g takes away.
func (b *box) named(g ipam.Grant) (named []*boxGrant) {
	for _, has := range b.grants {
		if has.key == g.Key && has.ip == g.Address || !g.Address.IsValid() && ipam.HolderOf(has.key) == ipam.HolderOf(g.Key) {
			named = append(named, has)
		}
	}
	return named
}

// draw chooses one of ways. An honest backend always takes the first.
func (b *box) draw(label string, ways ...string) string {
	if b.honest {
		return ways[0]
	}
	return rapid.SampledFrom(ways).Draw(b.m.t, label)
}

func (b *box) holderOf(ip netip.Addr) *boxGrant {
	return b.find(func(g *boxGrant) bool { return g.ip == ip })
}

func (b *box) find(is func(*boxGrant) bool) *boxGrant {
	if i := slices.IndexFunc(b.grants, is); i >= 0 {
		return b.grants[i]
	}
	return nil
}

func (b *box) drop(grants []*boxGrant) {
	b.grants = slices.DeleteFunc(slices.Clone(b.grants), func(g *boxGrant) bool { return slices.Contains(grants, g) })
}

// free returns the addresses of a family that the backend can grant.
func (b *box) free(f addr.Family) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(boxPool), func(ip netip.Addr) bool {
		return addr.FamilyOf(ip) != f || b.others[ip] || b.holderOf(ip) != nil
	})
}

// claim performs a claim. A key has one address at most. The backend does not refuse a key for which it
// has an address: the contract of both kinds demands that.
func (b *box) claim(c ipam.Claim, by *boxCall) ipam.Answer {
	has := b.find(func(g *boxGrant) bool { return g.key == c.Key })
	way := b.draw("claim", "well", "well", "well", "well", "refuse", "wrong", "double", "another")
	free := b.free(c.Family)
	if has != nil && !b.arriving {
		has.starts, has.late = b.sent, false
	}
	switch {
	case way == "refuse" && has == nil:
		return boxError(rapid.SampledFrom([]ipam.Kind{ipam.KindExhausted, ipam.KindTaken, ipam.KindInvalid}).Draw(b.m.t, "kind"))
	case has != nil && c.Address.IsValid() && has.ip != c.Address:
		_, held := b.m.allocations.cluster.Store.Holder(has.ip)
		has.lost = has.lost || held // two Services have one key for their addresses, and a worker that began since knows one
		a := boxError(ipam.KindInvalid)
		a.Surplus = []netip.Addr{has.ip}
		return a
	case has != nil:
		return ipam.Answer{Grant: ipam.Grant{Key: c.Key, Address: has.ip}}
	case way == "wrong":
		return b.grant(c.Key, rapid.SampledFrom(wrongPool).Draw(b.m.t, "wrong"), by)
	case way == "another" && len(free) > 0:
		a := b.grant(c.Key, rapid.SampledFrom(free).Draw(b.m.t, "another"), by)
		if c.Address.IsValid() && c.Address != a.Grant.Address {
			return ipam.Answer{Err: boxFault(ipam.KindInvalid), Surplus: []netip.Addr{a.Grant.Address}}
		}
		return a
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
	other := b.holderOf(ip)
	if other != nil {
		other.lost = true
	}
	b.grants = append(b.grants, &boxGrant{key: key, ip: ip, by: by, starts: b.sent, late: b.arriving, lost: other != nil})
	return ipam.Answer{Grant: ipam.Grant{Key: key, Address: ip}}
}

// boxFaults are the kinds of errors of a backend that does not work.
var boxFaults = []ipam.Kind{ipam.KindUnavailable, ipam.KindMisconfigured, ipam.KindUnknown}

func boxError(kind ipam.Kind) ipam.Answer { return ipam.Answer{Err: boxFault(kind)} }

func boxFault(kind ipam.Kind) *ipam.Error {
	return &ipam.Error{Kind: kind, Message: "the backend says " + string(kind)}
}

// carryOut performs one request of a call.
func (b *box) carryOut(c *boxCall, i int) {
	if _, done := c.done[i]; done {
		return
	}
	if c.claims != nil {
		c.done[i] = b.claim(c.claims[i], c)
		return
	}
	found := b.named(c.grants[i])
	for _, g := range found {
		b.forgotten[g.ip] = b.forgotten[g.ip] || g.lost // a Service may have it by another key: the sweep registers it again
	}
	b.drop(found)
	c.done[i] = ipam.Answer{}
}

// forget loses a grant, or makes another cluster take or free an address.
func (b *box) forget() {
	if len(b.grants) > 0 && rapid.Bool().Draw(b.m.t, "ours") {
		g := rapid.SampledFrom(b.grants).Draw(b.m.t, "forget")
		b.forgotten[g.ip] = true
		b.drop([]*boxGrant{g})
		return
	}
	ip := rapid.SampledFrom(boxPool).Draw(b.m.t, "another's")
	b.others[ip] = !b.others[ip] && b.holderOf(ip) == nil
}

// arrive performs or drops a request whose client has given up.
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
