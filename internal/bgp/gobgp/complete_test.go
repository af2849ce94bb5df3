package gobgp

import (
	"testing"

	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/testing/expect"
)

func TestANeighborIsCompleteWhenItHasSentAllRoutes(t *testing.T) {
	w := newWorld(t)
	w.frr("192.0.2.1", " bgp graceful-restart",
		" address-family ipv4 unicast", "  network 203.0.113.0/24", " exit-address-family")
	w.bird("192.0.2.3", "192.0.2.1", " graceful restart on;")
	w.frr("192.0.2.1") // without graceful restart this neighbor sends no End-of-RIB
	s := newServer(t)
	apply(t, s, state(graceful(peer("192.0.2.2")), graceful(birdPeer("192.0.2.3")), peer("192.0.2.4")))
	for _, address := range []string{"192.0.2.2", "192.0.2.3"} {
		neighborIs(t, s, address, "complete", func(n peering.NeighborStatus) bool { return n.Complete })
	}
	expect.NoError(t, s.Down(t.Context(), peer("192.0.2.2").Address))
	neighborIs(t, s, "192.0.2.2", "incomplete", func(n peering.NeighborStatus) bool { return n.State != peering.Established && !n.Complete })
	neighborIs(t, s, "192.0.2.2", "complete again", func(n peering.NeighborStatus) bool { return n.Complete })
}

func TestTheStatusShowsTheCapabilitiesOfNeighbors(t *testing.T) {
	w := newWorld(t)
	w.frr("192.0.2.1") // helper mode is FRR's default
	w.bird("192.0.2.3", "192.0.2.1", " graceful restart aware;")
	w.frr("192.0.2.1", " bgp graceful-restart-disable")
	w.frr("2001:db8::1", "neighbor 2001:db8::1 capability extended-nexthop")
	w.frr("2001:db8::1")
	s := newServer(t)
	apply(t, s, state(graceful(peer("192.0.2.2")), graceful(birdPeer("192.0.2.3")), graceful(peer("192.0.2.4")), peer("2001:db8::5"), peer("2001:db8::6")))
	for address, keeps := range map[string]bool{"192.0.2.2": true, "192.0.2.3": true, "192.0.2.4": false} {
		if n := established(t, s, address); n.GracefulRestart != keeps {
			t.Errorf("%s: the status says that the neighbor keeps routes: %v, want %v", address, n.GracefulRestart, keeps)
		}
	}
	for address, takes := range map[string]bool{"2001:db8::5": true, "2001:db8::6": false} {
		if n := established(t, s, address); !n.Opened || n.ExtendedNextHop != takes {
			t.Errorf("%s: the status has the OPEN %v and the extended next hop %v, want %v", address, n.Opened, n.ExtendedNextHop, takes)
		}
	}
}
