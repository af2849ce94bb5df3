package gobgp

import (
	"net/netip"
	"testing"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/bgp/peering"
)

// TestRoutersGetTheNextHopsThatPeeringDecides: routes of a family for which peering knows no next hop
// are not announced.
func TestRoutersGetTheNextHopsThatPeeringDecides(t *testing.T) {
	w := newWorld(t)
	router := w.frr("192.0.2.1")
	spec := bgpv1.BGPConfigurationSpec{
		Global:     bgpv1.Global{ASN: ourAS},
		PeerGroups: []bgpv1.PeerGroup{{Config: bgpv1.PeerGroupConfig{PeerGroupName: "all", PeerConfig: bgpv1.PeerConfig{PeerASN: routerAS}}}},
		Neighbors:  []bgpv1.Neighbor{{Config: bgpv1.NeighborConfig{NeighborAddress: "192.0.2.2", PeerGroup: "all"}}},
	}
	spec.PeerGroups[0].Timers = &bgpv1.Timers{Config: bgpv1.TimersConfig{HoldTime: 30, ConnectRetry: 1}}
	s := announcing(t, "198.51.100.1/32", "2001:db8:f::1/128")
	apply(t, s, decided(t, spec, peering.Node{}))
	one := "198.51.100.1/32 via 192.0.2.1"
	router.Await(one)
	if sent := established(t, s, "192.0.2.2").Sent[v6]; sent != 0 {
		t.Errorf("%d IPv6 routes are sent without a next hop", sent)
	}
	apply(t, s, decided(t, spec, peering.Node{}, "2001:db8::1"))
	both := []string{one, "2001:db8:f::1/128 via 2001:db8::1"}
	router.Await(both...)
	apply(t, s, decided(t, spec, peering.Node{}))
	router.Await(one)
}

// The learned route has a higher local preference. The import policy accepts all other routes.
func TestALearnedRouteNeverReplacesARouteOfTheCluster(t *testing.T) {
	w := newWorld(t)
	w.inside(" address-family ipv4 unicast", "  neighbor 192.0.2.1 route-map PREFER out", "  network 203.0.113.0/24", "  network 198.51.100.0/24",
		" exit-address-family", "route-map PREFER permit 10", " set local-preference 300")
	spec := bgpv1.BGPConfigurationSpec{
		Global:        bgpv1.Global{ASN: ourAS},
		Neighbors:     []bgpv1.Neighbor{neighborIn(ourAS, "192.0.2.2")},
		NetlinkExport: &bgpv1.NetlinkExport{Enabled: true, Rules: []bgpv1.ExportRule{{Name: "all"}}},
	}
	s := announcing(t, "203.0.113.0/24")
	apply(t, s, decided(t, spec, peering.Node{Own: []peering.PrefixRange{{Prefix: netip.MustParsePrefix("203.0.113.0/24"), Min: 24, Max: 32}}}))
	await(t, s, "198.51.100.0/24 via 192.0.2.2 from 192.0.2.2")
	neighborIs(t, s, "192.0.2.2", "announced to", func(n peering.NeighborStatus) bool { return n.Received[v4] == 2 && n.Sent[v4] == 1 })
}
