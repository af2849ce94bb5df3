package gobgp

import (
	"net/netip"
	"testing"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/peering"
)

// TestWhatIsDecidedOfNextHopsIsWhatRoutersGet from a neighbour that is named and
// from one that comes by itself, and not where nothing is known to lead to them.
func TestWhatIsDecidedOfNextHopsIsWhatRoutersGet(t *testing.T) {
	w := newWorld(t)
	named, came := w.frr("192.0.2.1"), w.frr("192.0.2.1")
	spec := bgpv1.BGPConfigurationSpec{
		Global:           bgpv1.Global{ASN: ourAS},
		PeerGroups:       []bgpv1.PeerGroup{{Config: bgpv1.PeerGroupConfig{PeerGroupName: "all", PeerConfig: bgpv1.PeerConfig{PeerASN: routerAS}}}},
		DynamicNeighbors: []bgpv1.DynamicNeighbor{{Prefix: "192.0.2.0/24", PeerGroup: "all"}},
		Neighbors: []bgpv1.Neighbor{{
			Config: bgpv1.NeighborConfig{NeighborAddress: "192.0.2.2", PeerGroup: "all"},
		}},
	}
	spec.PeerGroups[0].Timers = &bgpv1.Timers{Config: bgpv1.TimersConfig{HoldTime: 3, ConnectRetry: 1}}
	decided := func(addresses ...netip.Addr) peering.State {
		node := peering.Node{Name: "a", InternalIPs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}
		d := peering.Decide(spec, node, nil, func(netip.Addr) (peering.Egress, bool) {
			return peering.Egress{Interface: "eth0", Addresses: addresses}, true
		})
		if !d.OK {
			t.Fatal(d.Problems)
		}
		return d.State
	}
	s := newServer(t)
	announce(t, s, routes("198.51.100.1/32", "2001:db8:f::1/128")...)
	apply(t, s, decided())
	one := "198.51.100.1/32 via 192.0.2.1"
	named.Await(one)
	came.Await(one)
	apply(t, s, decided(netip.MustParseAddr("2001:db8::1")))
	both := []string{one, "2001:db8:f::1/128 via 2001:db8::1"}
	named.Await(both...)
	came.Await(both...)
	apply(t, s, decided())
	named.Await(one)
	came.Await(one)
}
