package gobgp

import (
	"net/netip"
	"testing"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/bgp/peering"
)

// A route waits for the policies of its next group. The policies have no statement about its mark any more.
// The same is true between two steps of an Apply, and if the second one fails: policies come before routes.
func TestARouteWithTheMarkOfAnUnknownGroupGoesToNoNeighbor(t *testing.T) {
	w := newWorld(t)
	two, three := w.frr("192.0.2.1"), w.frr("192.0.2.1")
	spec := bgpv1.BGPConfigurationSpec{
		Global:    bgpv1.Global{ASN: ourAS},
		Neighbors: []bgpv1.Neighbor{neighborIn(routerAS, "192.0.2.2"), neighborIn(routerAS, "192.0.2.3")},
	}
	naming := func(group string) peering.State {
		return decided(t, spec, peering.Node{Restricted: []peering.Restriction{{Group: group, Mark: peering.MarkOf(group), Peers: []string{"192.0.2.2"}}}})
	}
	const own, plain = "198.51.100.1/32 via 192.0.2.1", "198.51.100.2/32 via 192.0.2.1"
	s := newServer(t)
	first := naming("a")
	first.Routes = routes("198.51.100.1/32", "198.51.100.2/32")
	first.Routes[0].Attributes.Marks = []string{peering.MarkOf("a")}
	apply(t, s, first)
	two.Await(own, plain)
	three.Await(plain)

	watch := three.Monitor()
	second := naming("b")
	second.Routes, second.Waiting = first.Routes[1:], []netip.Addr{netip.MustParseAddr("198.51.100.1")}
	apply(t, s, second)
	two.Await(plain)
	watch.Quiet(t)
}

// The advertisements of a group change, so that its routes get the mark of another restriction, which leaves
// the neighbor out. GoBGP asks the new policies whether it has sent the former route, and they reject it.
func TestARouteWhoseNextMarkLeavesANeighborOutIsWithdrawn(t *testing.T) {
	w := newWorld(t)
	router := w.frr("192.0.2.1")
	spec := bgpv1.BGPConfigurationSpec{Global: bgpv1.Global{ASN: ourAS}, Neighbors: []bgpv1.Neighbor{neighborIn(routerAS, "192.0.2.2")}}
	to := func(group, peer string) peering.State {
		mark := peering.MarkOf(group)
		state := decided(t, spec, peering.Node{Restricted: []peering.Restriction{{Group: group, Mark: mark, Peers: []string{peer}}}})
		state.Routes = routes("198.51.100.1/32", "198.51.100.2/32")
		state.Routes[0].Attributes.Marks = []string{mark}
		return state
	}
	s := newServer(t)
	apply(t, s, to("a", "192.0.2.2"))
	router.Await("198.51.100.1/32 via 192.0.2.1", "198.51.100.2/32 via 192.0.2.1")
	apply(t, s, to("b", "192.0.2.9"))
	router.Await("198.51.100.2/32 via 192.0.2.1")

	apply(t, s, to("c", "192.0.2.2"))
	router.Await("198.51.100.1/32 via 192.0.2.1", "198.51.100.2/32 via 192.0.2.1")
	open := decided(t, spec, peering.Node{})
	open.Routes = routes("198.51.100.2/32")
	apply(t, s, open) // the group goes together with its route
	router.Await("198.51.100.2/32 via 192.0.2.1")
}
