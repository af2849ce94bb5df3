package peering

import (
	"cmp"
	"slices"
)

// Advertisement sets attributes of routes at the neighbors that it names: an entry of
// spec.bgp.advertisements of a ServiceGroup.
type Advertisement struct {
	// Peers are names as in Restriction. None means all neighbors.
	Peers []string `json:",omitempty"`
	Attributes
	Prepend *uint8 `json:",omitempty"`
}

// Without returns the restriction for the routes of a Service that sets some attributes itself. These
// precede the attributes of the group, so no advertisement sets them.
func (g Restriction) Without(service Attributes) Restriction {
	all := slices.Clone(g.Advertisements)
	suffix := ""
	for _, kind := range []struct {
		name    string
		set     bool
		release func(*Advertisement)
	}{
		{"communities", service.Communities != nil, func(a *Advertisement) { a.Communities = nil }},
		{"large communities", service.LargeCommunities != nil, func(a *Advertisement) { a.LargeCommunities = nil }},
		{"MED", service.MED != nil, func(a *Advertisement) { a.MED = nil }},
		{"local preference", service.LocalPref != nil, func(a *Advertisement) { a.LocalPref = nil }},
	} {
		if !kind.set {
			continue
		}
		suffix += ", without " + kind.name
		for i := range all {
			kind.release(&all[i])
		}
	}
	if suffix == "" {
		return g
	}
	return Restriction{Group: g.Group + suffix, Mark: ProfileOf(g.Group + suffix), Advertisements: all}
}

// overrideFor returns the attributes of the routes of g for a neighbor. Communities are those of all
// advertisements that name the neighbor. Each number is that of the first of them that sets it. A local
// preference is only for neighbors of the same AS. These would take a longer path for a loop. A draining
// node keeps its request to prefer other nodes.
func (r *reader) overrideFor(g Restriction, m member) Override {
	var o Override
	var preference *uint32
	var longer *uint8
	for _, one := range g.Advertisements {
		if len(one.Peers) > 0 && !m.isOneOf(one.Peers) {
			continue
		}
		o.Communities = united(o.Communities, one.Communities)
		o.LargeCommunities = united(o.LargeCommunities, one.LargeCommunities)
		o.MED, preference, longer = cmp.Or(o.MED, one.MED), cmp.Or(preference, one.LocalPref), cmp.Or(longer, one.Prepend)
	}
	if n := max(len(o.Communities), len(o.LargeCommunities)); n > mostCommunities {
		r.here("ServiceGroup "+g.Group, ReasonParseError, "the advertisements to %s have %d communities together, so those after the first %d are left out: remove some", m.Name(), n, mostCommunities)
		o.Communities = o.Communities[:min(len(o.Communities), mostCommunities)]
		o.LargeCommunities = o.LargeCommunities[:min(len(o.LargeCommunities), mostCommunities)]
	}
	draining := r.node.Draining
	if draining && len(o.Communities) > 0 {
		o.Communities = united(o.Communities, []uint32{GracefulShutdown})
	}
	switch {
	case !m.interior():
		o.Prepend = value(longer)
	case !draining:
		o.LocalPref = preference
	}
	return o
}

// united returns the elements of both lists, sorted.
func united[T cmp.Ordered](a, b []T) []T {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}
