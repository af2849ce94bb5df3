package intent

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/groups"
)

// Addresses stay announced when their group is refused, deleted or shrunk. The bounds of a group
// are the neighbors and the nodes that it names. The functions below keep the bounds of addresses
// that no usable group has any more. Without the bounds, the node would announce the addresses to
// every neighbor. Bounds stay until a usable group has the addresses, or until their group is
// usable again and has other bounds. They stay even if this node has none of the addresses, because
// it may get one later.
//
// A process reads bounds from the file of the previous process in the same pod, and from
// the BGPNodeStatuses of this node and of other nodes.

// bounds holds the bounds of the last input, and what is known of the groups now.
type bounds struct {
	before Attributes
	usable []groups.Group
	// live has the names of the usable groups.
	live map[string]bool
	// pools are the addresses of usable groups.
	pools []addr.Range
	// named holds the bounds of groups, without their addresses.
	named map[string]bgpv1.GroupBounds
}

func boundsOf(before Attributes, usable []groups.Group, groups []v2.ServiceGroup) bounds {
	b := bounds{before: before, usable: usable, live: map[string]bool{}, named: map[string]bgpv1.GroupBounds{}}
	for _, one := range before.Bounds {
		b.named[one.Group] = one
	}
	for _, g := range usable {
		b.live[g.Ref()] = true
		delete(b.named, g.Ref())
		if one, bound := boundsBy(g, groups); bound {
			b.named[g.Ref()] = one
		}
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
// usable groups, whose bounds also hold for addresses that they had before. node are the labels of
// this node, which may change after the speaker has started.
func (b bounds) ranges(now []RangeAttributes, node map[string]string) []RangeAttributes {
	type key struct {
		group  string
		family addr.Family
	}
	current := map[key]RangeAttributes{}
	for _, r := range now {
		current[key{r.Group, addr.FamilyOf(r.From)}] = r
	}
	var all []RangeAttributes
	for _, r := range b.before.Ranges {
		one, named := b.named[r.Group]
		if b.live[r.Group] {
			live := current[key{r.Group, addr.FamilyOf(r.From)}]
			r.Attributes, r.Elsewhere = live.Attributes, live.Elsewhere
		} else if named && one.NodeSelector != nil {
			r.Elsewhere = !selects(one.NodeSelector, node)
		}
		if !named && len(r.Attributes.Marks) == 0 && !r.Elsewhere {
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

// managed returns the marks of unusable groups. The keys are the group names in Services.
func (b bounds) managed() map[string]string {
	marks := map[string]string{}
	for name, mark := range b.before.Managed {
		if !slices.ContainsFunc(b.usable, func(g groups.Group) bool { return g.DisplayName() == name }) {
			marks[name] = mark
		}
	}
	return marks
}

// keepManaged keeps these marks on the addresses that had them, except for addresses that a Service
// has or a pool contains.
func (a *Attributes) keepManaged(b bounds, marks map[string]string, services []ServiceFacts) {
	of := map[netip.Addr]bool{}
	for _, svc := range services {
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
	own := a.Of(ip)
	if !slices.Contains(own.Marks, mark) {
		own.Marks = append(slices.Clip(own.Marks), mark)
	}
	a.ByAddress[ip] = own
}

// restrictions returns the earlier restrictions that routes in a still need.
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
		if needed[r.Mark] && !a.Enforces([]string{r.Mark}) {
			r.Unknown = nil // there may be no group in which a user could correct the name
			all = append(all, r)
		}
	}
	return all
}

// boundsBy returns the bounds that a usable group sets, and false if it sets none.
func boundsBy(g groups.Group, groups []v2.ServiceGroup) (one bgpv1.GroupBounds, bound bool) {
	i := slices.IndexFunc(groups, func(o v2.ServiceGroup) bool { return o.Namespace == g.Namespace && o.Name == g.Name })
	if i < 0 || groups[i].Spec.BGP == nil {
		return one, false
	}
	all := advertisementsOf(groups[i].Spec.BGP)
	one = bgpv1.GroupBounds{Group: g.Ref(), Peers: peersOf(all)}
	if len(g.Pools) > 0 {
		one.NodeSelector = selectorOf(all)
	} else {
		one.AllocatedFrom = g.DisplayName()
	}
	return one, len(one.Peers) > 0 || one.NodeSelector != nil
}

// mostLost limits the groups whose bounds a BGPNodeStatus has. With 64 neighbors each, they take up
// a fifth of the maximum size of an object.
const mostLost = 100

// otherGroups is the name of all groups beyond mostLost, which no object has.
const otherGroups = "*"

// record stores the bounds of the groups that name neighbors or nodes, sorted by group.
// lost are the ranges that no usable group has.
func (a *Attributes) record(b bounds, lost []RangeAttributes) {
	addresses := map[string][]string{}
	for _, r := range lost {
		addresses[r.Group] = append(addresses[r.Group], addr.Range{From: r.From, To: r.To}.String())
	}
	managed := b.managed()
	for _, name := range slices.Sorted(maps.Keys(b.named)) {
		one := b.named[name]
		one.Addresses = addresses[name]
		if _, there := managed[one.AllocatedFrom]; there || len(one.Addresses) > 0 {
			a.Bounds, a.Lost = append(a.Bounds, one), append(a.Lost, one)
		} else if b.live[name] {
			a.Bounds = append(a.Bounds, one)
		}
	}
	a.Lost = shorten(a.Lost)
}

// shorten returns at most mostLost bounds. The last one then stands for all further groups. It names
// a neighbor that no node has: a speaker that starts must not announce the addresses of these groups
// to the wrong neighbors.
func shorten(lost []bgpv1.GroupBounds) []bgpv1.GroupBounds {
	slices.SortStableFunc(lost, byRank)
	if len(lost) <= mostLost {
		return lost
	}
	var others []addr.Range
	for _, one := range lost[mostLost-1:] {
		others = append(others, rangesOf(one)...)
	}
	rest := bgpv1.GroupBounds{Group: otherGroups, Peers: []string{otherGroups}}
	for _, r := range addr.Merge(others) {
		rest.Addresses = append(rest.Addresses, r.String())
	}
	return append(lost[:mostLost-1:mostLost-1], rest)
}

// byRank sorts groups without ranges first, because otherGroups cannot stand for them, and
// otherGroups last.
func byRank(a, b bgpv1.GroupBounds) int {
	rank := func(one bgpv1.GroupBounds) int {
		switch {
		case one.AllocatedFrom != "":
			return 0
		case one.Group != otherGroups:
			return 1
		}
		return 2
	}
	return cmp.Compare(rank(a), rank(b))
}

// rangesOf returns the addresses of recorded bounds, without malformed ones.
func rangesOf(one bgpv1.GroupBounds) []addr.Range {
	var all []addr.Range
	for _, text := range one.Addresses {
		if r, _, err := addr.ParseRange(text); err == nil {
			all = append(all, r)
		}
	}
	return all
}

// Recalling returns a, which comes from the file, with the bounds that nodes recorded. For
// a group or an address in both, the recorded bounds take precedence, because the file does
// not change while the configuration is refused. otherGroups has the lowest precedence.
func (a Attributes) Recalling(recorded []bgpv1.GroupBounds) Attributes {
	recorded = slices.SortedStableFunc(slices.Values(recorded), byRank)
	b := recalled(recorded)
	b.ByAddress, b.Withheld = a.ByAddress, a.Withheld
	for i, r := range b.Ranges {
		same := slices.IndexFunc(a.Ranges, func(o RangeAttributes) bool { return o.Group == r.Group })
		if same >= 0 { // nodes do not record communities
			b.Ranges[i].Attributes = a.Ranges[same].Attributes
			b.Ranges[i].Attributes.Marks = r.Attributes.Marks
		}
	}
	unknown := slices.DeleteFunc(slices.Clone(b.Ranges), func(r RangeAttributes) bool { return r.Group != otherGroups })
	known := slices.DeleteFunc(b.Ranges, func(r RangeAttributes) bool { return r.Group == otherGroups })
	b.Ranges = addMissing(addMissing(known, a.Ranges), unknown)
	slices.SortFunc(b.Ranges, func(a, b RangeAttributes) int { return a.From.Compare(b.From) })
	for _, r := range a.Restricted {
		if !b.Enforces([]string{r.Mark}) {
			b.Restricted = append(b.Restricted, r)
		}
	}
	for name, mark := range a.Managed {
		if _, there := b.Managed[name]; !there {
			b.Managed[name] = mark
		}
	}
	b.Bounds = slices.Clone(recorded)
	for _, one := range a.Bounds {
		if !slices.ContainsFunc(recorded, func(o bgpv1.GroupBounds) bool { return o.Group == one.Group }) {
			b.Bounds = append(b.Bounds, one)
		}
	}
	return b
}

// addMissing returns first, and the addresses in more that first lacks.
func addMissing(first, more []RangeAttributes) []RangeAttributes {
	var taken []addr.Range
	for _, r := range first {
		taken = append(taken, addr.Range{From: r.From, To: r.To})
	}
	taken = addr.Merge(taken)
	for _, r := range more {
		for rest := range (addr.Range{From: r.From, To: r.To}).Without(taken) {
			r.From, r.To = rest.From, rest.To
			first = append(first, r)
		}
	}
	return first
}

// recalled returns the attributes for recorded bounds. If several bounds have an address,
// the first ones take precedence.
func recalled(all []bgpv1.GroupBounds) Attributes {
	a := Attributes{Bounds: all, Managed: map[string]string{}}
	var taken []addr.Range
	for _, one := range all {
		of := RangeAttributes{Group: one.Group}
		if len(one.Peers) > 0 {
			mark := peering.MarkOf(one.Group)
			a.Restricted = append(a.Restricted, peering.Restriction{Group: one.Group, Mark: mark, Peers: one.Peers})
			of.Attributes.Marks = []string{mark}
			if one.AllocatedFrom != "" {
				a.Managed[one.AllocatedFrom] = mark
			}
		}
		for _, r := range rangesOf(one) {
			for rest := range r.Without(addr.Merge(taken)) {
				of.From, of.To = rest.From, rest.To
				a.Ranges = append(a.Ranges, of)
			}
			taken = append(taken, r)
		}
	}
	slices.SortFunc(a.Ranges, func(a, b RangeAttributes) int { return a.From.Compare(b.From) })
	return a
}
