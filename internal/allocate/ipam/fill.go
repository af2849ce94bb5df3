package ipam

import (
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/groups"
	"purelb.io/purelb/internal/service"
)

// fill chooses addresses for the families without a good address, or returns the reasons why there
// are none. It tries requested addresses first. The policy of the Service says whether it needs all
// families, or takes as many as possible.
func (c *chooser) fill(good []netip.Addr) ([]netip.Addr, []*Refusal) {
	var fresh []netip.Addr
	var refusals []*Refusal
	var rest []addr.Family
	for _, f := range c.r.Families {
		wish, asks := c.asked(f)
		switch {
		case len(ofFamily(good, f)) > 0:
		case !asks:
			rest = append(rest, f)
		default:
			if refusal := c.refuseAsked(wish); refusal != nil {
				refusals = append(refusals, refusal)
			} else {
				fresh = append(fresh, wish)
			}
		}
	}
	found, refused := c.search(rest, good)
	fresh, refusals = append(fresh, found...), append(refusals, refused...)
	if c.r.Policy == service.All && len(refusals) > 0 {
		fresh = nil
	}
	return fresh, refusals
}

// search finds addresses of families for which the Service names no address. A Service that
// wants one family gets the first family that has an address. While a backend may still
// grant one of a family, search does not try the next family.
func (c *chooser) search(families []addr.Family, good []netip.Addr) ([]netip.Addr, []*Refusal) {
	if c.r.Policy != service.One {
		return c.find(families, good)
	}
	var refusals []*Refusal
	for _, f := range families {
		fresh, refused := c.find([]addr.Family{f}, good)
		if len(refused) == 0 {
			return fresh, nil
		}
		refusals = append(refusals, refused...)
		if slices.ContainsFunc(refused, func(r *Refusal) bool { return r.awaits }) {
			break
		}
	}
	return nil, refusals
}

// find finds an address of each of these families: first one that the Service can share,
// then a new one.
func (c *chooser) find(families []addr.Family, good []netip.Addr) ([]netip.Addr, []*Refusal) {
	if len(families) == 0 {
		return nil, nil
	}
	groups, refusal := c.sources(families, good)
	if refusal != nil {
		return nil, []*Refusal{refusal}
	}
	var fresh []netip.Addr
	var refusals []*Refusal
	var rest []addr.Family
	for _, f := range families {
		switch a, refusal := c.join(groups, f); {
		case refusal != nil:
			refusals = append(refusals, refusal)
		case a.IsValid():
			fresh = append(fresh, a)
		default:
			rest = append(rest, f)
		}
	}
	found, refused := c.take(groups, rest)
	return append(fresh, found...), append(refusals, refused...)
}

// sources returns the groups that may give addresses of these families to the Service. If
// the Service gets one address of every pool of a group, only that group may give it more.
func (c *chooser) sources(families []addr.Family, good []netip.Addr) ([]*groups.Group, *Refusal) {
	if home, refusal := c.home(good); refusal != nil {
		return nil, refusal
	} else if home != nil {
		return []*groups.Group{home}, c.denied(*home)
	}
	candidates := c.candidates(families[0])
	if candidates.refusal != nil {
		return nil, candidates.refusal
	}
	return c.usable(candidates.groups, c.homes(good))
}

// take takes new addresses. It prefers the first group that has an address of every family.
// If there is no such group, it takes each address from the first group that has one and
// that may be combined with the groups of the addresses before.
func (c *chooser) take(groups []*groups.Group, families []addr.Family) ([]netip.Addr, []*Refusal) {
	groups = c.due(groups, families)
	for _, g := range groups {
		if fresh, all := c.allOf(g, families); all {
			c.claimFrom(groups, families, nil)
			return fresh, nil
		}
	}
	var fresh []netip.Addr
	var missing []addr.Family
	left := groups
	for _, f := range families {
		g, found := c.firstOf(left, f)
		if g == nil {
			missing = append(missing, f)
			continue
		}
		fresh, left = append(fresh, found...), c.beside(left, g)
	}
	c.claimFrom(groups, families, missing)
	if len(missing) > 0 && c.r.Policy == service.All {
		// The Service gets nothing, so no group is excluded. If the groups cannot be
		// combined, an address of any family may help.
		if left = groups; len(groups) > 1 && slices.ContainsFunc(groups, c.isMulti) {
			missing = families
		}
	}
	var refusals []*Refusal
	for _, f := range missing {
		refusals = append(refusals, c.exhausted(left, f))
	}
	return fresh, refusals
}

// allOf returns the addresses that g gives of these families, and whether it gives at least
// one of each.
func (c *chooser) allOf(g *groups.Group, families []addr.Family) (fresh []netip.Addr, all bool) {
	for _, f := range families {
		given := c.give(g, f)
		if len(given) == 0 {
			return nil, false
		}
		fresh = append(fresh, given...)
	}
	return fresh, true
}

// firstOf returns the first group that has an address of family f, with that address.
func (c *chooser) firstOf(groups []*groups.Group, f addr.Family) (*groups.Group, []netip.Addr) {
	for _, g := range groups {
		if given := c.give(g, f); len(given) > 0 {
			return g, given
		}
	}
	return nil, nil
}

// beside returns the groups that may give more addresses to a Service with an address from g.
func (c *chooser) beside(all []*groups.Group, g *groups.Group) []*groups.Group {
	if c.isMulti(g) {
		return []*groups.Group{g}
	}
	return slices.DeleteFunc(slices.Clone(all), c.isMulti)
}
