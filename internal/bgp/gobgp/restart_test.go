package gobgp

import (
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/testing/bgptest"
	"purelb.io/purelb/internal/testing/expect"
)

// quiet watches routers that must not change a route. No event shows that none will come, so it waits.
func quiet(t *testing.T, monitors ...*bgptest.Monitor) {
	t.Helper()
	time.Sleep(3 * time.Second)
	for _, m := range monitors {
		m.Quiet(t)
	}
}

func TestGracefulRestartChangesNoRouteOfRouters(t *testing.T) {
	ends := []struct {
		name string
		end  func(*speaker)
		late bool
	}{
		{"after a crash", (*speaker).kill, false},
		{"after a graceful stop", func(s *speaker) { s.stop("graceful") }, false},
		// A neighbor is added late if it is not known at first, such as a default gateway without its
		// route, or a router behind an interface.
		{"with neighbors that are added late", (*speaker).kill, true},
	}
	for _, tt := range ends {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			frr := w.frr("192.0.2.1", " bgp graceful-restart preserve-fw-state")
			bird := w.bird("192.0.2.3", "192.0.2.1", " graceful restart on;")
			o := orders{
				State:  state(graceful(peer("192.0.2.2")), graceful(birdPeer("192.0.2.3"))),
				Routes: routes("198.51.100.1/32", "2001:db8:f::1/128"),
			}
			s := startSpeaker(t, o)
			want := []string{"198.51.100.1/32 via 192.0.2.1", "2001:db8:f::1/128 via 2001:db8::1"}
			frr.Await(want...)
			bird.Await(want...)
			atFRR, atBIRD := frr.Monitor(), bird.Monitor()

			tt.end(s)
			frr.AwaitSays("show bgp ipv4 unicast 198.51.100.1/32", "stale")
			o.Restarting, o.Late = true, tt.late
			startSpeaker(t, o)
			bgptest.Await(t, "whether FRR's route is fresh", "fresh", func() string { return freshness(frr) })
			quiet(t, atFRR, atBIRD)
			frr.Await(want...)
			bird.Await(want...)
		})
	}
}

func freshness(frr *bgptest.Router) string {
	out := frr.Ask("show bgp ipv4 unicast 198.51.100.1/32")
	if strings.Contains(out, "stale") || !strings.Contains(out, "best") {
		return out
	}
	return "fresh"
}

func TestAFinalStopWithdrawsRoutesDespiteGracefulRestart(t *testing.T) {
	w := newWorld(t)
	frr := w.frr("192.0.2.1")
	bird := w.bird("192.0.2.3", "192.0.2.1", " graceful restart on;")
	s := announcing(t, "198.51.100.1/32")
	apply(t, s, state(graceful(peer("192.0.2.2")), graceful(birdPeer("192.0.2.3"))))
	frr.Await("198.51.100.1/32 via 192.0.2.1")
	bird.Await("198.51.100.1/32 via 192.0.2.1")
	expect.NoError(t, s.Stop(t.Context(), false))
	frr.Await()
	bird.Await()
	if !bgptest.Eventually(func() bool { return strings.Contains(bird.Log(), goodbye) }) {
		t.Errorf("the log of BIRD has no reason of the end:\n%s", bird.Log())
	}
	if left := neighbors(t, s); len(left) > 0 {
		t.Errorf("a stopped server has the neighbors %+v, want none", left)
	}
}

func TestARestartDoesNotWaitForAnAbsentNeighbor(t *testing.T) {
	w := newWorld(t)
	frr := w.frr("192.0.2.1")
	o := orders{
		State:  state(graceful(peer("192.0.2.2")), graceful(peer("192.0.2.99"))),
		Routes: routes("198.51.100.1/32"),
	}
	s := startSpeaker(t, o)
	frr.Await("198.51.100.1/32 via 192.0.2.1")
	s.kill()
	o.Restarting = true
	o.Routes = routes("198.51.100.1/32", "198.51.100.2/32")
	startSpeaker(t, o)
	frr.Await("198.51.100.1/32 via 192.0.2.1", "198.51.100.2/32 via 192.0.2.1")
}

// Only a restart sets the forwarding bit (RFC 4724, section 4.2). Without the bit, a router may
// drop its stale routes when the session begins again. FRR keeps them until it has the new routes.
func TestALostConnectionMovesNoRoute(t *testing.T) {
	w := newWorld(t)
	frr := w.frr("192.0.2.1", " neighbor 192.0.2.1 graceful-restart-helper")
	s := announcing(t, "198.51.100.1/32")
	apply(t, s, state(graceful(peer("192.0.2.2"))))
	frr.Await("198.51.100.1/32 via 192.0.2.1")
	before := established(t, s, "192.0.2.2")
	monitor := frr.Monitor()
	if out, err := bgptest.Here(t).Run("ss", "-K", "-t", "dst", "192.0.2.2"); err != nil || !strings.Contains(out, "192.0.2.2") {
		t.Fatalf("no connection was killed: %v\n%s", err, out)
	}
	neighborIs(t, s, "192.0.2.2", "up again", func(n peering.NeighborStatus) bool {
		return n.State == peering.Established && n.UpSince.After(before.UpSince)
	})
	frr.AwaitSays("show bgp neighbors 192.0.2.1", "F bit: False")
	quiet(t, monitor)
	frr.Await("198.51.100.1/32 via 192.0.2.1")
}

// After a restart GoBGP waits for the neighbors that keep routes before it announces routes.
func TestRoutesDoNotWaitForNeighborsThatKeepNone(t *testing.T) {
	w := newWorld(t)
	router := w.frr("192.0.2.1")
	patient := func(p peering.Peer) peering.Peer {
		p.GracefulRestart = peering.GracefulRestart{Enabled: true, Restart: 5 * bgptest.Patience, Deferral: 5 * bgptest.Patience}
		return p
	}
	helper, down := patient(peer("192.0.2.77")), patient(peer("192.0.2.78"))
	helper.GracefulRestart.HelperOnly, down.AdminDown = true, true
	s := announcing(t, "198.51.100.1/32")
	if problems, err := s.beginWith(t.Context(), state(patient(peer("192.0.2.2")), helper, down), true); err != nil || len(problems) > 0 {
		t.Fatal(problems, err)
	}
	router.Await("198.51.100.1/32 via 192.0.2.1")
}
