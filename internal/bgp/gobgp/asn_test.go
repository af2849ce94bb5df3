package gobgp

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/bgp/routing"
	"purelb.io/purelb/internal/testing/bgptest"
	"purelb.io/purelb/internal/testing/expect"
)

// external returns a neighbor that may be in any AS but ours.
func external(address string) peering.Peer {
	p := peer(address)
	p.ASN, p.LocalASN, p.External = 0, ourAS, true
	return p
}

func TestAnExternalNeighborMayBeInAnyAS(t *testing.T) {
	w := newWorld(t)
	frr := w.frr("192.0.2.1", " address-family ipv4 unicast", "  network 203.0.113.0/24")
	bird := w.bird("192.0.2.3", "192.0.2.1")
	s := announcing(t, "198.51.100.1/32", "2001:db8:f::1/128")
	wanted := state(external("192.0.2.2"), external("192.0.2.3"))
	apply(t, s, wanted)
	frr.Await("198.51.100.1/32 via 192.0.2.1", "2001:db8:f::1/128 via 2001:db8::1")
	bird.Await("198.51.100.1/32 via 192.0.2.1", "2001:db8:f::1/128 via 2001:db8::1")
	await(t, s, "203.0.113.0/24 via 192.0.2.2 from 192.0.2.2")
	frr.AwaitSays("show bgp ipv4 unicast 198.51.100.1/32", fmt.Sprint(ourAS))
	frr.AwaitSays("show bgp neighbors 192.0.2.1", "external link")
	for address, as := range map[string]uint32{"192.0.2.2": routerAS, "192.0.2.3": birdAS} {
		if n := established(t, s, address); n.PeerASN != as || n.LocalASN != ourAS {
			t.Errorf("the status of %s has the peer AS %d and the local AS %d, want %d and %d", address, n.PeerASN, n.LocalASN, as, ourAS)
		}
	}

	// Other timers do not end the session, and it stays external.
	up := established(t, s, "192.0.2.2").UpSince
	wanted.Peers[0].Timers.ConnectRetry = 3 * time.Second
	apply(t, s, wanted)
	announce(t, s, routes("198.51.100.2/32")...)
	frr.Await("198.51.100.2/32 via 192.0.2.1")
	if n := established(t, s, "192.0.2.2"); !n.UpSince.Equal(up) || n.PeerASN != routerAS {
		t.Errorf("after an update the neighbor is %+v, want it external and up since %v", n, up)
	}
}

// TestAnExternalNeighborMayMoveToAnotherAS shows that the AS of an earlier session does
// not restrict the next session.
func TestAnExternalNeighborMayMoveToAnotherAS(t *testing.T) {
	w := newWorld(t)
	router := w.frr("192.0.2.1")
	s := announcing(t, "198.51.100.1/32")
	apply(t, s, state(graceful(external("192.0.2.2"))))
	router.Await("198.51.100.1/32 via 192.0.2.1")
	router.Ask(fmt.Sprintf("configure terminal\nno router bgp %d", routerAS))
	if n := neighborIs(t, s, "192.0.2.2", "down", func(n peering.NeighborStatus) bool { return n.State != peering.Established }); n.PeerASN != 0 {
		t.Errorf("without a session the status has the peer AS %d, want 0", n.PeerASN)
	}
	router.Ask(`configure terminal
router bgp 4200000001
no bgp ebgp-requires-policy
neighbor 192.0.2.1 remote-as external
neighbor 192.0.2.1 timers connect 1`)
	router.Await("198.51.100.1/32 via 192.0.2.1")
	if n := established(t, s, "192.0.2.2"); n.PeerASN != 4200000001 {
		t.Errorf("the status has the peer AS %d, want the new AS", n.PeerASN)
	}
}

// TestTheStatusShowsAnExternalNeighborInOurAS. GoBGP accepts such a
// neighbor. The speaker ends the session.
func TestTheStatusShowsAnExternalNeighborInOurAS(t *testing.T) {
	w := newWorld(t)
	w.inside()
	s := newServer(t)
	p := external("192.0.2.2")
	apply(t, s, state(p))
	if n := established(t, s, "192.0.2.2"); n.PeerASN != ourAS || n.LocalASN != ourAS {
		t.Errorf("the status has the peer AS %d and the local AS %d, want %d for both", n.PeerASN, n.LocalASN, ourAS)
	}
	p.AdminDown = true
	apply(t, s, state(p))
	neighborIs(t, s, "192.0.2.2", "down", func(n peering.NeighborStatus) bool { return n.State != peering.Established && n.AdminDown })
}

// TestUnnumberedNeighborsMayBeExternal uses FRR as most routers of a rack are configured: it
// learns our address from Router Advertisements.
func TestUnnumberedNeighborsMayBeExternal(t *testing.T) {
	w := newWorld(t)
	near := linkLocal(bgptest.Here(t))
	n := w.machine()
	router := bgptest.FRR(t, n, fmt.Sprintf(`
interface eth0
 ipv6 nd ra-interval 1
 no ipv6 nd suppress-ra
router bgp %d
 bgp router-id 192.0.2.2
 no bgp ebgp-requires-policy
 neighbor eth0 interface remote-as external
 neighbor eth0 timers connect 1
 address-family ipv6 unicast
  neighbor eth0 activate
`, routerAS))
	kernel, err := routing.New(slog.New(slog.DiscardHandler))
	expect.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		kernel.Advertise(ctx, "eth0")
	}()
	defer func() {
		cancel()
		<-ended
		_ = kernel.Close()
	}()

	far := linkLocal(n)
	s := announcing(t, "198.51.100.1/32", "2001:db8:f::1/128")
	apply(t, s, state(unnumbered(external("192.0.2.2"), far)))
	router.Await("198.51.100.1/32 via "+near, "2001:db8:f::1/128 via "+near)
	if got := established(t, s, far+"%eth0"); got.Interface != "eth0" || got.PeerASN != routerAS {
		t.Errorf("the neighbor is %+v", got)
	}
}
