package peering

import (
	"cmp"
	"reflect"
	"slices"
)

// policies sets what the neighbors get, and completes the State. Its slices are sorted, so that it does not
// depend on the order in the configuration.
//
// A node learns routes only if its kernel uses them. Routes that a router announces by mistake would use
// memory, and could replace the node's own routes. Within the node's own AS such a route may have a higher
// local preference than the node's own route, and then GoBGP would withdraw the node's own route.
func (r *reader) policies() {
	slices.SortFunc(r.members, func(a, b member) int { return cmp.Compare(a.Name(), b.Name()) })
	for _, g := range r.node.Restricted {
		r.restrict(g)
	}
	for _, m := range r.members {
		r.d.State.Peers = append(r.d.State.Peers, m.Peer)
	}
	if len(r.d.Export) > 0 {
		r.d.State.Learns, r.d.State.Own = true, r.node.Own
	}
}

// restrict sets what g says about each neighbor.
func (r *reader) restrict(g Restriction) {
	for _, name := range g.Unknown {
		r.here("ServiceGroup "+g.Group+": spec.bgp.peers", ReasonNotFound,
			"no neighbor has the address, the interface or the peer group %s: correct it; the addresses are announced only to the others", quote(name))
	}
	named := false
	for i := range r.members {
		m := &r.members[i]
		if m.isOneOf(g.Peers) {
			m.Groups, named = append(m.Groups, g.Group), true
		}
		if o := r.overrideFor(g, *m); !reflect.DeepEqual(o, Override{}) {
			if m.Overrides == nil {
				m.Overrides = map[string]Override{}
			}
			m.Overrides[g.Mark] = o
		}
	}
	if !named && len(g.Advertisements) == 0 {
		r.d.Unnamed = append(r.d.Unnamed, g.Group)
	}
}
