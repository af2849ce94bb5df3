package ipam

import (
	"fmt"
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/groups"
	"purelb.io/purelb/internal/service"
)

// multi reports whether the Service gets an address of every pool of g. A Service may always turn
// this off. It may turn this on unless the group forbids it.
func (c *chooser) multi(g groups.Group) bool {
	if c.r.MultiPool == nil {
		return g.MultiPool
	}
	return *c.r.MultiPool && (g.MultiPool || !g.ForbidMultiPool && g.Backend == "")
}

func (c *chooser) isMulti(g *groups.Group) bool { return c.multi(*g) }

// everyPool returns one address of each pool of g of family f. It skips pools without a
// free address, and pools from which the Service already has an address.
func (c *chooser) everyPool(g groups.Group, f addr.Family, have []netip.Addr) []netip.Addr {
	var fresh []netip.Addr
	for _, p := range untouched(g, f, have) {
		if a, ok := c.next(p); ok && !c.homeless(g, p) {
			fresh = append(fresh, a)
		}
	}
	return fresh
}

// untouched returns the pools of g of family f that contain none of have.
func untouched(g groups.Group, f addr.Family, have []netip.Addr) []groups.Pool {
	return slices.DeleteFunc(slices.Clone(g.Pools), func(p groups.Pool) bool {
		return p.Family() != f || slices.ContainsFunc(have, p.Contains)
	})
}

// homeless reports whether no node could announce addresses of p, a pool of g. A group of
// local addresses may have pools for networks that have no node yet.
func (c *chooser) homeless(g groups.Group, p groups.Pool) bool {
	return g.Announce == groups.AnnounceLocal && !slices.ContainsFunc(c.Subnets, p.Subnet.Overlaps)
}

// grow is for a Service that has addresses of some pools of a group. It gives the Service
// one address of each other pool that has a free one.
func (c *chooser) grow(good []netip.Addr) ([]netip.Addr, []*Refusal) {
	home, refusal := c.home(good)
	switch {
	case refusal != nil:
		return nil, []*Refusal{refusal}
	case home == nil || c.denied(*home) != nil:
		return nil, nil
	}
	var fresh []netip.Addr
	for _, f := range c.r.Families {
		if _, asks := c.asked(f); !asks && len(ofFamily(good, f)) > 0 {
			fresh = append(fresh, c.everyPool(*home, f, good)...)
		}
	}
	return fresh, nil
}

// grown reports whether a is an address that grow gives. The Service must get an address of
// every pool of the group of a. It must also show one of them, or have shown one that the
// Store still has for it.
func (c *chooser) grown(a netip.Addr) bool {
	g, p, ok := c.GroupOf(a)
	if !ok || !c.offers(p, a, c.me) || !c.rightful(a) || !c.multi(g) || c.denied(g) != nil {
		return false
	}
	once := c.those(func(o own) bool { return o.shown || o.vouched && o.held })
	return among(c.homes(once), g)
}

// homes returns the groups of the addresses, except for requested addresses.
func (c *chooser) homes(addresses []netip.Addr) []*groups.Group {
	var homes []*groups.Group
	for _, a := range addresses {
		if g, _, ok := c.GroupOf(a); ok && !c.asksFor(a) && !among(homes, g) {
			homes = append(homes, &g)
		}
	}
	return homes
}

// home returns the group from which a Service with these addresses gets one of every pool.
// It is nil if there is no such group.
func (c *chooser) home(addresses []netip.Addr) (*groups.Group, *Refusal) {
	homes := c.homes(addresses)
	if !slices.ContainsFunc(homes, c.isMulti) {
		return nil, nil
	}
	return homes[0], c.clash(homes[0], homes)
}

// usable returns which of all groups can serve a Service that has addresses of homes, in the way that
// the group or the Service wants. If no group can, it returns the reason of the first group.
func (c *chooser) usable(all, homes []*groups.Group) ([]*groups.Group, *Refusal) {
	if !slices.ContainsFunc(all, c.isMulti) {
		return all, nil
	}
	usable := slices.DeleteFunc(slices.Clone(all), func(g *groups.Group) bool {
		return c.multi(*g) && c.clash(g, homes) != nil
	})
	if len(usable) == 0 {
		return nil, c.clash(all[0], homes)
	}
	return usable, nil
}

// clash refuses one address of every pool of g if that contradicts something else: the Service has
// addresses of other groups, or it shares its addresses, or g balances its pools.
func (c *chooser) clash(g *groups.Group, homes []*groups.Group) *Refusal {
	for _, other := range homes {
		if other.Ref() != g.Ref() {
			return c.mismatch([]*groups.Group{other, g})
		}
	}
	refusal := &Refusal{Metric: metricMultiPool, Pool: g.DisplayName(), Reason: ReasonMultiPool}
	switch {
	case c.r.SharingKey != "":
		refusal.Message = fmt.Sprintf("multi-pool allocation from pool %s and the annotation %s are mutually exclusive; remove the annotation, or set %s: \"false\"",
			g.DisplayName(), service.AnnotationSharing, service.AnnotationMultiPool)
	case g.BalancePools:
		refusal.Message = fmt.Sprintf("multi-pool and balancePools allocation are mutually exclusive for pool %s; turn one off in the group, or set the annotation %s: \"false\"",
			g.DisplayName(), service.AnnotationMultiPool)
	default:
		return nil
	}
	return refusal
}

// mismatch refuses one address of every pool if the addresses would come from several
// groups.
func (c *chooser) mismatch(groups []*groups.Group) *Refusal {
	return &Refusal{Metric: metricMismatch, Pool: unknownPool, Reason: ReasonMultiPoolMismatch, Message: fmt.Sprintf(
		"multi-pool allocation for service %s refused: its addresses would be from several groups (%s); set the annotation %s: \"true\" "+
			"to get all of them from one, or %s: \"false\"", c.r.Key(), groupNames(groups), service.AnnotationReevaluate, service.AnnotationMultiPool)}
}

// unoffered refuses an address of every pool to a Service that asks for it although its
// group forbids it. The Service keeps addresses, which are all that it has.
func (c *chooser) unoffered(addresses []netip.Addr) []*Refusal {
	if c.r.MultiPool == nil || !*c.r.MultiPool {
		return nil
	}
	var refusals []*Refusal
	for _, g := range c.homes(addresses) {
		if c.multi(*g) || !c.hasMore(*g, addresses) {
			continue
		}
		refusals = append(refusals, &Refusal{Metric: metricMultiPool, Pool: g.DisplayName(), Reason: ReasonMultiPool, Message: fmt.Sprintf(
			"the annotation %s: \"true\" is not in effect, because ServiceGroup %q has allowMultiPool: false; "+
				"remove that from the group, or remove the annotation", service.AnnotationMultiPool, g.DisplayName())})
	}
	return refusals
}

// hasMore reports whether g has another pool of a family of which addresses already contain
// one of g.
func (c *chooser) hasMore(g groups.Group, addresses []netip.Addr) bool {
	for _, f := range c.r.Families {
		_, asks := c.asked(f)
		from := slices.ContainsFunc(ofFamily(addresses, f), func(a netip.Addr) bool { _, ok := g.PoolOf(a); return ok })
		if !asks && from && len(untouched(g, f, addresses)) > 0 {
			return true
		}
	}
	return false
}
