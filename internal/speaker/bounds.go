package speaker

import (
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/ipam"
	"purelb.io/purelb/internal/peering"
)

// Addresses stay announced when their group is refused, deleted or shrunk. Bounds of a group are
// the neighbors and the nodes that it names. The functions below keep the bounds of addresses that no
// usable group has any more: without them, the node would announce the addresses to every
// neighbor at once. This node may get an address later, so bounds stay until a usable group has
// the addresses, or their group is usable and has other bounds.

// bounds holds the bounds of the last input, and what is known of the groups now.
type bounds struct {
	before Attributes
	usable []ipam.Group
	// pools are the addresses of usable groups.
	pools []addr.Range
}

func boundsOf(before Attributes, usable []ipam.Group) bounds {
	b := bounds{before: before, usable: usable}
	for _, g := range usable {
		for _, p := range g.Pools {
			b.pools = append(b.pools, p.Range)
		}
	}
	b.pools = addr.Merge(b.pools)
	return b
}

// pooled reports whether a usable group has a pool with ip.
func (b bounds) pooled(ip netip.Addr) bool {
	return slices.ContainsFunc(b.pools, func(r addr.Range) bool { return r.Contains(ip) })
}

// ranges returns the ranges that are in no pool any more and have bounds. now are the ranges of
// usable groups, whose bounds also hold for addresses that they had before.
func (b bounds) ranges(now []RangeAttributes) []RangeAttributes {
	current := map[string]RangeAttributes{}
	for _, g := range b.usable {
		current[g.Ref()] = RangeAttributes{}
	}
	for _, r := range now {
		current[r.Group] = r
	}
	var all []RangeAttributes
	for _, r := range b.before.Ranges {
		if own, there := current[r.Group]; there {
			r.Attributes, r.Elsewhere = own.Attributes, own.Elsewhere
		}
		if len(r.Attributes.Marks) == 0 && !r.Elsewhere {
			continue
		}
		r.Weighed = false
		for rest := range (addr.Range{From: r.From, To: r.To}).Without(b.pools) {
			r.From, r.To = rest.From, rest.To
			all = append(all, r)
		}
	}
	return all
}

// managed returns the marks of groups that are not usable, by the names that Services have for
// them.
func (b bounds) managed() map[string]string {
	marks := map[string]string{}
	for name, mark := range b.before.Managed {
		if !slices.ContainsFunc(b.usable, func(g ipam.Group) bool { return g.DisplayName() == name }) {
			marks[name] = mark
		}
	}
	return marks
}

// keepManaged marks the addresses that had one of these marks and of which no Service tells
// otherwise.
func (a *Attributes) keepManaged(b bounds, marks map[string]string, told []ServiceFacts) {
	of := map[netip.Addr]bool{}
	for _, svc := range told {
		for _, ip := range svc.Addresses {
			of[ip] = true
		}
	}
	for ip, before := range b.before.ByAddress {
		for _, mark := range marks {
			if slices.Contains(before.Marks, mark) && !of[ip] && !b.pooled(ip) {
				a.mark(ip, mark)
			}
		}
	}
}

// mark adds a mark to the route of ip.
func (a *Attributes) mark(ip netip.Addr, mark string) {
	own := a.of(ip)
	if !slices.Contains(own.Marks, mark) {
		own.Marks = append(slices.Clip(own.Marks), mark)
	}
	a.ByAddress[ip] = own
}

// restrictions returns those restrictions of before that routes in a still need.
func (b bounds) restrictions(a Attributes) []peering.Restriction {
	needed := map[string]bool{}
	for _, r := range a.Ranges {
		for _, mark := range r.Attributes.Marks {
			needed[mark] = true
		}
	}
	for _, mark := range a.Managed {
		needed[mark] = true
	}
	var all []peering.Restriction
	for _, r := range b.before.Restricted {
		if needed[r.Mark] && !a.enforces([]string{r.Mark}) {
			r.Unknown = nil // there may be no group in which a user could correct the name
			all = append(all, r)
		}
	}
	return all
}
