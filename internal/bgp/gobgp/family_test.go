package gobgp

import (
	"fmt"
	"testing"
	"time"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/testing/bgptest"
	"purelb.io/purelb/internal/testing/expect"
)

// A router that has not activated a family gets no routes of it. Only the negotiated capabilities and
// the routes that were sent show that.
func TestANodeWhoseRouterTakesOneFamilyIsNotHealthy(t *testing.T) {
	w := newWorld(t)
	frr := w.frr("192.0.2.1", " address-family ipv6 unicast", "  no neighbor 192.0.2.1 activate", " exit-address-family")
	n := w.machine()
	bird := bgptest.BIRD(t, n, fmt.Sprintf(`
router id 192.0.2.3;
protocol bgp ours {
 local 192.0.2.3 as %d; neighbor 192.0.2.1 as %d;
 connect retry time 1; connect delay time 1; error wait time 1, 2;
 ipv4 { import all; export none; };
}
`, birdAS, ourAS))
	local := routes("198.51.100.1/32", "2001:db8:f::1/128")
	s := newServer(t)
	announce(t, s, local...)
	wanted := state(graceful(peer("192.0.2.2")), graceful(birdPeer("192.0.2.3")))
	apply(t, s, wanted)
	frr.Await("198.51.100.1/32 via 192.0.2.1")
	bird.Await("198.51.100.1/32 via 192.0.2.1")
	for _, address := range []string{"192.0.2.2", "192.0.2.3"} {
		got := neighborIs(t, s, address, "agreeing to IPv4 and graceful restart", func(n peering.NeighborStatus) bool { return len(n.Agreed) > 0 && n.GracefulRestart })
		expect.Equal(t, "families of "+address, fmt.Sprintf("%v %d %d", got.Agreed, got.Sent[v4], got.Sent[v6]), "[IPv4] 1 0")
	}
	healthOf := func() string {
		r := peering.Report{
			Now: time.Now().Add(time.Minute), Decision: peering.Decision{State: wanted, OK: true}, Neighbors: neighbors(t, s), Local: local,
			Since: map[addr.Family]time.Time{v4: time.Now(), v6: time.Now()},
		}
		for _, l := range local {
			r.Imported = append(r.Imported, peering.Imported{Address: l.Prefix})
		}
		return peering.NodeStatus(r, bgpv1.BGPNodeStatusStatus{}).Conditions[0].Message
	}
	expect.Equal(t, "health", healthOf(), "IPv6: 1 addresses are announced to no neighbor: 192.0.2.2 has not agreed to ipv6-unicast: activate the family on the router, "+
		"192.0.2.3 has not agreed to ipv6-unicast: activate the family on the router")

	frr.Ask(fmt.Sprintf("configure terminal\nrouter bgp %d\naddress-family ipv6 unicast\nneighbor 192.0.2.1 activate", routerAS))
	neighborIs(t, s, "192.0.2.2", "with an IPv6 route", func(n peering.NeighborStatus) bool { return n.Sent[v6] == 1 })
	expect.Equal(t, "health with the family", healthOf(), "2 neighbor(s) established")
}
