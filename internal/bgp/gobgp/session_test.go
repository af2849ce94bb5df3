package gobgp

import (
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/testing/bgptest"
	"purelb.io/purelb/internal/testing/expect"
)

func TestASessionNeedsThePasswordAndFollowsItsRotation(t *testing.T) {
	const first, second = "correct horse battery", "staple"
	w := newWorld(t)
	router := w.frr("192.0.2.1", " neighbor 192.0.2.1 password "+strings.ReplaceAll(first, " ", "-"))
	key := strings.ReplaceAll(first, " ", "-")
	var text expect.Log
	s := serverLogging(t, text.Logger(slog.LevelDebug))
	announce(t, s, routes("198.51.100.1/32")...)
	p := peer("192.0.2.2")

	p.Password = "wrong-" + second
	apply(t, s, state(p))
	counts(t, "TCPMD5Failure", 3)
	if n := neighbors(t, s)[0]; n.State == peering.Established {
		t.Fatal("the session is up with the wrong password")
	}

	p.Password = key
	apply(t, s, state(p))
	router.Await("198.51.100.1/32 via 192.0.2.1")

	// The router's password changes, then ours.
	router.Ask(fmt.Sprintf("configure terminal\nrouter bgp %d\nneighbor 192.0.2.1 password %s", routerAS, second))
	router.Await()
	p.Password = second
	apply(t, s, state(p))
	router.Await("198.51.100.1/32 via 192.0.2.1")

	// The neighbor is removed, and added again without a password on either side.
	apply(t, s, state())
	router.Await()
	router.Ask(fmt.Sprintf("configure terminal\nrouter bgp %d\nno neighbor 192.0.2.1 password", routerAS))
	p.Password, p.Passive = "", true
	apply(t, s, state(p))
	router.Await("198.51.100.1/32 via 192.0.2.1")

	for _, secret := range []string{key, second} {
		if strings.Contains(text.String(), secret) {
			t.Errorf("the log contains the password %q", secret)
		}
		if said := fmt.Sprintf("%+v", neighbors(t, s)); strings.Contains(said, secret) {
			t.Errorf("the status contains the password %q", secret)
		}
	}
}

func TestRoutesOfOneRouterAreNotAnnouncedToAnother(t *testing.T) {
	w := newWorld(t)
	frr := w.frr("192.0.2.1", " address-family ipv4 unicast", "  network 203.0.113.0/24")
	bird := w.bird("192.0.2.3", "192.0.2.1")
	s := announcing(t, "198.51.100.1/32")
	apply(t, s, state(peer("192.0.2.2"), birdPeer("192.0.2.3")))
	frr.Await("198.51.100.1/32 via 192.0.2.1")
	bird.Await("198.51.100.1/32 via 192.0.2.1")
	await(t, s, "203.0.113.0/24 via 192.0.2.2 from 192.0.2.2")
	bird.Await("198.51.100.1/32 via 192.0.2.1")
}

// await waits until the learned routes equal want.
func await(t testing.TB, s *Server, want ...string) {
	t.Helper()
	bgptest.Await(t, "the learned routes", strings.Join(want, "\n"), func() string {
		all, err := s.Learned(t.Context())
		expect.NoError(t, err)
		var lines []string
		for _, r := range all {
			lines = append(lines, fmt.Sprintf("%v via %v from %v", r.Prefix, r.NextHop, r.From))
		}
		return strings.Join(lines, "\n")
	})
}

func TestANodeThatLearnsNoRoutesAnnouncesItsOwn(t *testing.T) {
	w := newWorld(t)
	frr := w.frr("192.0.2.1", " address-family ipv4 unicast", "  network 203.0.113.0/24", "  network 203.0.113.128/25")
	s := announcing(t, "198.51.100.1/32")
	wanted := state(peer("192.0.2.2"))
	wanted.Learns = false
	apply(t, s, wanted)
	frr.Await("198.51.100.1/32 via 192.0.2.1")
	neighborIs(t, s, "192.0.2.2", "announcing two routes", func(n peering.NeighborStatus) bool { return n.Received[v4] >= 2 })
	await(t, s)

	wanted.Learns, wanted.Own = true, []peering.PrefixRange{{Prefix: netip.MustParsePrefix("203.0.113.0/24"), Min: 24, Max: 24}}
	apply(t, s, wanted)
	await(t, s, "203.0.113.128/25 via 192.0.2.2 from 192.0.2.2")
}

// GoBGP ends the session for good. Another limit alone does not begin it, a new neighbor does.
func TestANeighborAboveItsLimitHasNoSession(t *testing.T) {
	w := newWorld(t)
	w.frr("192.0.2.1", " address-family ipv4 unicast", "  network 203.0.113.0/25", "  network 203.0.113.128/25")
	s := newServer(t)
	p := peer("192.0.2.2")
	p.Families[0].MaxPrefixes = 1
	apply(t, s, state(p))
	neighborIs(t, s, "192.0.2.2", "over its limit", func(n peering.NeighborStatus) bool { return n.OverLimit && n.State != peering.Established })
	p.AdminDown = true
	apply(t, s, state(p))
	neighborIs(t, s, "192.0.2.2", "held down", func(n peering.NeighborStatus) bool { return n.AdminDown && !n.OverLimit })
	wider := peer("192.0.2.2")
	wider.Families[0].MaxPrefixes = 2
	apply(t, s, state(wider))
	neighborIs(t, s, "192.0.2.2", "established", func(n peering.NeighborStatus) bool { return n.State == peering.Established && n.Received[v4] == 2 })
}

func TestADownNeighborIsResetOnceAndComesBack(t *testing.T) {
	w := newWorld(t)
	router := w.frr("192.0.2.1")
	s := announcing(t, "198.51.100.1/32")
	apply(t, s, state(peer("192.0.2.2")))
	router.Await("198.51.100.1/32 via 192.0.2.1")
	established(t, s, "192.0.2.2")

	// The session must be down at the second reset, also if this test is slow.
	allow := refuseConnections(t, router)
	expect.NoError(t, s.Down(t.Context(), netip.MustParseAddr("192.0.2.2")))
	neighborIs(t, s, "192.0.2.2", "down", func(n peering.NeighborStatus) bool { return n.State != peering.Established && n.Flaps == 1 })
	expect.NoError(t, s.Down(t.Context(), netip.MustParseAddr("192.0.2.2")))
	allow()
	n := established(t, s, "192.0.2.2")
	router.Await("198.51.100.1/32 via 192.0.2.1")
	time.Sleep(2 * time.Second) // time for a queued reset, which would end the session
	if again := established(t, s, "192.0.2.2"); again.Flaps != 1 || !again.UpSince.Equal(n.UpSince) {
		t.Errorf("the neighbor is %+v, want it up since %v", again, n.UpSince)
	}
}

// refuseConnections blocks new TCP connections to and from router until the test calls allow.
// Open connections continue.
func refuseConnections(t testing.TB, router *bgptest.Router) (allow func()) {
	nft := func(rules string) {
		t.Helper()
		if out, err := router.Run("nft", rules); err != nil {
			t.Fatalf("nft %s: %v\n%s", rules, err, out)
		}
	}
	nft("table inet test { chain input { type filter hook input priority 0; tcp flags & syn == syn drop; }; }")
	return func() { nft("delete table inet test") }
}

func TestUnrelatedChangesDoNotEndASession(t *testing.T) {
	w := newWorld(t)
	router := w.frr("192.0.2.1")
	s := announcing(t, "198.51.100.1/32")
	p := peer("192.0.2.2")
	apply(t, s, state(p))
	router.Await("198.51.100.1/32 via 192.0.2.1")
	up := established(t, s, "192.0.2.2").UpSince
	monitor := router.Monitor()

	p.Description, p.Path = "the router", "spec.neighbors[7]"
	p.Timers.Hold = 40 * time.Second
	p.Families = options().Families
	p.Families[0].MaxPrefixes = 100
	p.NextHops = nil
	p.BFD = &peering.BFD{Multiplier: 3}
	apply(t, s, state(p))
	n := established(t, s, "192.0.2.2")
	if n.Description != "the router" || !n.UpSince.Equal(up) {
		t.Errorf("the neighbor is %+v, want it up since %v", n, up)
	}
	monitor.Quiet(t)
	if n.Sent[v4] != 1 {
		t.Errorf("%d routes are announced, want 1", n.Sent[v4])
	}

	p.AdminDown = true
	apply(t, s, state(p))
	router.Await()
	neighborIs(t, s, "192.0.2.2", "down", func(n peering.NeighborStatus) bool { return n.AdminDown && n.State == peering.Idle })
	p.AdminDown = false
	apply(t, s, state(p))
	router.Await("198.51.100.1/32 via 192.0.2.1")
}
