package gobgp

import (
	"slices"
	"strings"
	"testing"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/bgp/peering"
)

// A group names one of two routers. Only that router gets the routes of the group. Then the group
// names the other router. No router sees the mark of these routes.
func TestOnlyNamedRoutersGetTheRoutesOfAGroup(t *testing.T) {
	w := newWorld(t)
	two, three := w.frr("192.0.2.1"), w.frr("192.0.2.1")
	spec := bgpv1.BGPConfigurationSpec{
		Global: bgpv1.Global{ASN: ourAS},
		PeerGroups: []bgpv1.PeerGroup{
			{Config: bgpv1.PeerGroupConfig{PeerGroupName: "edge", PeerConfig: bgpv1.PeerConfig{PeerASN: routerAS}}},
			{Config: bgpv1.PeerGroupConfig{PeerGroupName: "core", PeerConfig: bgpv1.PeerConfig{PeerASN: routerAS}}},
		},
		Neighbors: []bgpv1.Neighbor{
			{Config: bgpv1.NeighborConfig{NeighborAddress: "192.0.2.2", PeerGroup: "edge"}},
			{Config: bgpv1.NeighborConfig{NeighborAddress: "192.0.2.3", PeerGroup: "core"}},
		},
	}
	for i := range spec.PeerGroups {
		spec.PeerGroups[i].Timers = &bgpv1.Timers{Config: bgpv1.TimersConfig{HoldTime: 30, ConnectRetry: 1}}
	}
	mark := peering.MarkOf("purelb-system/edge")
	naming := func(peers ...string) peering.State {
		var node peering.Node
		if len(peers) > 0 {
			node.Restricted = []peering.Restriction{{Group: "purelb-system/edge", Mark: mark, Peers: peers}}
		}
		return decided(t, spec, node, "2001:db8::1")
	}
	all := routes("198.51.100.1/32", "198.51.100.2/32", "2001:db8:f::1/128")
	for _, i := range []int{0, 2} {
		all[i].Attributes = peering.Attributes{Marks: []string{mark}, LargeCommunities: []string{"1:2:3"}}
	}
	const own, shared, own6 = "198.51.100.1/32 via 192.0.2.1", "198.51.100.2/32 via 192.0.2.1", "2001:db8:f::1/128 via 2001:db8::1"
	s := newServer(t)
	announce(t, s, all...)
	apply(t, s, naming("edge"))
	two.Await(own, shared, own6)
	three.Await(shared)
	two.AwaitSays("show bgp ipv4 unicast 198.51.100.1/32", "Large Community: 1:2:3\n")

	up := established(t, s, "192.0.2.2").UpSince
	apply(t, s, naming("192.0.2.3"))
	two.Await(shared)
	three.Await(own, shared, own6)
	if again := established(t, s, "192.0.2.2").UpSince; !again.Equal(up) {
		t.Error("a policy ended the session")
	}

	// Another group gets the addresses, for the same router. The other router never gets a route.
	watch := two.Monitor()
	renamed := decided(t, spec, peering.Node{Restricted: []peering.Restriction{
		{Group: "purelb-system/renamed", Mark: peering.MarkOf("purelb-system/renamed"), Peers: []string{"192.0.2.3"}},
	}}, "2001:db8::1")
	before := slices.Clone(all)
	for _, i := range []int{0, 2} {
		all[i].Attributes.Marks, all[i].Attributes.LargeCommunities = []string{peering.MarkOf("purelb-system/renamed")}, []string{"1:2:4"}
	}
	renamed.Routes = all
	if problems, err := s.Apply(t.Context(), renamed, false); err != nil || len(problems) > 0 {
		t.Fatal(problems, err)
	}
	three.AwaitSays("show bgp ipv4 unicast 198.51.100.1/32", "Large Community: 1:2:4\n")
	watch.Quiet(t)
	all = before
	announce(t, s, all...)

	// The group names a neighbor that this node does not have. Neither router gets the routes.
	apply(t, s, naming("eth7"))
	two.Await(shared)
	three.Await(shared)

	// The same is true for a route that is added later.
	more := routes("198.51.100.3/32", "198.51.100.4/32")
	more[0].Attributes.Marks = []string{mark}
	announce(t, s, append(all, more...)...)
	three.Await(shared, "198.51.100.4/32 via 192.0.2.1")

	for i := range all {
		all[i].Attributes.Marks = nil
	}
	announce(t, s, all...)
	apply(t, s, naming())
	two.Await(own, shared, own6)
	three.Await(own, shared, own6)
	if said := two.Ask("show bgp ipv4 unicast 198.51.100.1/32"); strings.Contains(said, "4294967295") {
		t.Errorf("the router sees the mark: %s", said)
	}
}
