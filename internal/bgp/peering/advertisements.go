package peering

import (
	"cmp"
	"reflect"
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

// advertised gives routes the attributes that the advertisements in g set for each neighbor. routes is the
// set with the mark of g.
func (r *reader) advertised(g Restriction, routes *SetRef) []Statement {
	type share struct {
		name  string
		who   neighborSet
		count int
		then  Actions
	}
	var all []share
	for _, m := range r.members {
		then := r.attributesFor(g, m)
		if reflect.DeepEqual(then, Actions{}) {
			continue
		}
		i := slices.IndexFunc(all, func(s share) bool { return reflect.DeepEqual(s.then, then) })
		if i < 0 {
			i = len(all)
			all = append(all, share{name: g.Group + " for " + m.Name(), then: then})
		}
		all[i].who, all[i].count = all[i].who.plus(m.set()), all[i].count+1
	}
	var statements []Statement
	for _, s := range all {
		st := Statement{Name: reserved + s.name, If: Conditions{LargeCommunities: routes}, Then: s.then}
		if s.count < len(r.members) { // a set of unnumbered neighbors has to wait for their addresses
			st.If.Neighbors = r.set(s.name, s.who)
		}
		statements = append(statements, st)
	}
	return statements
}

// attributesFor returns the attributes of the routes of g for a neighbor. Communities are those of all
// advertisements that name the neighbor. Each number is that of the first of them that sets it.
func (r *reader) attributesFor(g Restriction, m member) Actions {
	var a Advertisement
	for _, one := range g.Advertisements {
		if len(one.Peers) > 0 && !m.isOneOf(one.Peers) {
			continue
		}
		a.Communities = united(a.Communities, one.Communities)
		a.LargeCommunities = united(a.LargeCommunities, one.LargeCommunities)
		a.MED, a.LocalPref, a.Prepend = cmp.Or(a.MED, one.MED), cmp.Or(a.LocalPref, one.LocalPref), cmp.Or(a.Prepend, one.Prepend)
	}
	if n := max(len(a.Communities), len(a.LargeCommunities)); n > mostCommunities {
		r.here("ServiceGroup "+g.Group, ReasonParseError, "the advertisements to %s have %d communities together, so those after the first %d are left out: remove some", m.Name(), n, mostCommunities)
		a.Communities = a.Communities[:min(len(a.Communities), mostCommunities)]
		a.LargeCommunities = a.LargeCommunities[:min(len(a.LargeCommunities), mostCommunities)]
	}
	return a.actions(m, r.node.Draining)
}

// actions returns what gives the routes to m the attributes a. A local preference is only for neighbors of
// the same AS. These would take a longer path for a loop. A draining node keeps its request to prefer other
// nodes.
func (a Advertisement) actions(m member, draining bool) Actions {
	var then Actions
	if len(a.Communities) > 0 && draining {
		a.Communities = united(a.Communities, []uint32{GracefulShutdown})
	}
	for _, c := range a.Communities {
		then.Communities = append(then.Communities, communityText(c))
	}
	then.LargeCommunities, then.MED = a.LargeCommunities, a.MED
	prepend := value(a.Prepend)
	switch {
	case m.interior() && !draining:
		then.LocalPref = a.LocalPref
	case !m.interior() && prepend > 0:
		then.Prepend = &Prepend{ASN: m.LocalASN, Repeat: prepend}
	}
	return then
}

// united returns the elements of both lists, sorted.
func united[T cmp.Ordered](a, b []T) []T {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}
