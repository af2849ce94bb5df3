package ipam

import (
	"fmt"
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/groups"
	"purelb.io/purelb/internal/service"
)

// own is an address that the Service shows or holds. The zero value stands for any other address.
type own struct {
	addr netip.Addr
	// shown says that the address is in the status of the Service, and vouched that PureLB gave it.
	shown, vouched bool
	// held says that the Store has the address for the Service, and contended that the Store has it
	// for another Service.
	held, contended bool
	// has says that the Service has the address: see keep.
	has bool
}

// mine reports whether the Store knows the address as one of the Service.
func (o own) mine() bool { return o.held || o.contended }

// of reports whether the address is of family f.
func (o own) of(f addr.Family) bool { return addr.FamilyOf(o.addr) == f }

// of returns what a is to the Service.
func (c *chooser) of(a netip.Addr) own {
	for _, o := range c.own {
		if o.addr == a {
			return o
		}
	}
	return own{}
}

// those returns the addresses of the Service that are so.
func (c *chooser) those(so func(own) bool) []netip.Addr {
	var those []netip.Addr
	for _, o := range c.own {
		if so(o) {
			those = append(those, o.addr)
		}
	}
	return those
}

// has returns the addresses that the Service has.
func (c *chooser) has() []netip.Addr { return c.those(func(o own) bool { return o.has }) }

// pending returns the addresses that the Store holds for the Service but that it does not have yet.
func (c *chooser) pending() []netip.Addr {
	return c.those(func(o own) bool { return o.held && !o.has })
}

// keep finds out which addresses the Service has.
//
// If Store and status differ, the Store is right. If only the status shows an address, a person
// wrote it there. If only the Store has an address, its write has not happened yet. An address that
// the Service contends for is treated as if the Store had it. If the Store has no address of a
// family for the Service, an earlier allocator gave the addresses in the status.
func (c *chooser) keep() {
	held := c.Store.held[c.me]
	for _, a := range distinct(slices.Concat(c.r.Held, held)) {
		c.own = append(c.own, own{
			addr: a, shown: slices.Contains(c.r.Held, a), vouched: slices.Contains(c.r.Vouched, a),
			held: slices.Contains(held, a), contended: c.Store.contends(a, c.me),
		})
	}
	c.own = slices.DeleteFunc(slices.Clone(c.own), c.outgrown)
	for _, f := range c.r.Families {
		isMine := slices.ContainsFunc(c.own, func(o own) bool { return o.of(f) && o.mine() })
		isBoth := slices.ContainsFunc(c.own, func(o own) bool { return o.of(f) && o.mine() && o.shown })
		for i, o := range c.own {
			c.own[i].has = o.has || o.of(f) && (o.mine() || !isMine) && (o.shown || !isBoth)
		}
	}
}

// outgrown reports whether the Service holds o without showing it, and would not get it today,
// because the request or the configuration has changed since o was chosen. No client knows such an
// address, so the Service may lose it. If the outcome of a write of o is unknown, the next write is
// for the same version, so only one of the two writes can succeed.
//
// The Service once showed an address that PureLB gave according to its annotation. If another
// controller removed that address from the status, the Service keeps its right to it.
func (c *chooser) outgrown(o own) bool {
	return !o.shown && (c.keptFrom(o.addr) != nil || !o.vouched && !c.fits(o.addr) && !c.grown(o.addr))
}

// keptFrom returns the reason why the Service cannot have a, or nil.
func (c *chooser) keptFrom(a netip.Addr) error {
	if c.of(a).shown {
		return c.Store.Refuses(a, c.me, c.Wide(a))
	}
	return c.Refuses(a, c.me)
}

// good returns which addresses of the Service stay. These are all that it shows, with two
// exceptions: the Service asks for another address of that family, or it asks to replace
// addresses that no longer fit. A replacement that was chosen but not written yet is chosen
// again.
func (c *chooser) good() []netip.Addr {
	var good []netip.Addr
	for _, a := range c.has() {
		if c.stays(a, good) {
			good = append(good, a)
		}
	}
	for _, a := range c.pending() {
		if c.r.Reevaluate && c.r.Wants(addr.FamilyOf(a)) && !c.asksFor(a) && c.stays(a, good) {
			good = append(good, a)
		}
	}
	return good
}

// stays reports whether a stays beside others. The Service may hold unshown addresses that it
// should no longer get, because the request has changed since they were chosen.
func (c *chooser) stays(a netip.Addr, others []netip.Addr) bool {
	shown := c.of(a).shown
	wish, asks := c.asked(addr.FamilyOf(a))
	switch {
	case asks && a != wish && (!shown || !c.of(wish).has):
		return false
	case c.r.Reevaluate:
		return c.fits(a) && !c.spare(a, others)
	}
	return shown || asks || !c.spare(a, others)
}

// spare reports whether a is one address too many if the Service has others.
func (c *chooser) spare(a netip.Addr, others []netip.Addr) bool {
	family := ofFamily(others, addr.FamilyOf(a))
	if g, p, ok := c.GroupOf(a); ok && c.multi(g) {
		return slices.ContainsFunc(family, p.Contains)
	}
	return len(family) > 0
}

// fits reports whether the Service would get an address from the pool of a today. The name of the
// group makes no difference, and neither do its free addresses.
func (c *chooser) fits(a netip.Addr) bool {
	g, p, ok := c.GroupOf(a)
	return ok && c.offers(p, a, c.me) && c.mayHave(g, a) && c.rightful(a)
}

// mayHave reports whether the Service may have a of group g.
func (c *chooser) mayHave(g groups.Group, a netip.Addr) bool {
	if slices.Contains(c.r.Asked, a) {
		return c.denied(g) == nil
	}
	return among(c.candidates(addr.FamilyOf(a)).groups, g)
}

// rightful reports whether the Service has a alone, or shares it by the rules. If Services
// share a against the rules, only the first of them has the right to it.
func (c *chooser) rightful(a netip.Addr) bool {
	for _, collision := range c.Store.Collisions(c.me) {
		if collision.Addr == a {
			return false
		}
	}
	if _, contended := c.Store.foreigner(a); contended {
		return false
	}
	first, held := c.Store.Holder(a)
	if !held || first == c.me {
		return true
	}
	return c.of(a).held && (c.Wide(a) || !slices.ContainsFunc(c.Store.Holders(a), c.outside))
}

// outside reports whether o is of another namespace than the Service.
func (c *chooser) outside(o Owner) bool { return o.Namespace() != c.r.Namespace }

// conflict names the first of addresses to which another Service, a node, a router or a
// machine outside the cluster has a better right.
func (c *chooser) conflict(addresses []netip.Addr) string {
	for _, a := range addresses {
		if why, withheld := c.Store.Withheld(a, c.me); withheld {
			return fmt.Sprintf("%s is also %s, so clients may not reach this Service; set the annotation %s: \"true\" "+
				"to get another address, or remove it there", a, why, service.AnnotationReevaluate)
		}
		if by, held := c.Store.Holder(a); held && c.notEntitled(a) {
			return fmt.Sprintf("%s is also held by %s, which had it first; set the annotation %s: \"true\" to get another address, "+
				"or delete one of the two Services", a, by, service.AnnotationReevaluate)
		}
		if foreigner, contended := c.Store.foreigner(a); contended {
			return fmt.Sprintf("another controller gave %s to %s too; take it out of that controller's pools, or set the annotation %s: \"true\" "+
				"to get another address", a, foreigner, service.AnnotationReevaluate)
		}
	}
	return ""
}

// notEntitled reports whether the Service may not hold a, which another Service holds.
func (c *chooser) notEntitled(a netip.Addr) bool {
	return !c.of(a).held && c.Store.Refuses(a, c.me, c.Wide(a)) != nil
}
