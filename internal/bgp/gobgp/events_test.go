package gobgp

import (
	"net/netip"
	"testing"
	"time"

	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/testing/bgptest"
)

func TestARouteOfANeighborWakesTheReaderWhileItIsInUse(t *testing.T) {
	const calm, again = 300 * time.Millisecond, "clear bgp 192.0.2.1 soft out"
	w := newWorld(t)
	router := w.frr("192.0.2.1", " address-family ipv4 unicast", "  network 203.0.113.0/24")
	s := newServer(t)
	woken := func(limit time.Duration) bool {
		select {
		case <-s.Events():
			return true
		case <-time.After(limit):
			return false
		}
	}
	for _, use := range []struct {
		learns bool
		within time.Duration
	}{{true, bgptest.Patience}, {false, calm}, {true, bgptest.Patience}} {
		wanted := state(peer("192.0.2.2"))
		wanted.Learns = use.learns
		apply(t, s, wanted)
		neighborIs(t, s, "192.0.2.2", "sending its route", func(n peering.NeighborStatus) bool { return n.Received[v4] == 1 })
		for woken(calm) { // the session is new, or was asked for its routes
		}
		router.Ask(again)
		if got := woken(use.within); got != use.learns {
			t.Errorf("a route wakes the reader: %v, want %v", got, use.learns)
		}
	}
}

var someRouter = netip.MustParseAddr("192.0.2.2")

// stateEvent is GoBGP's event of a state of someRouter.
func stateEvent(state bgp.FSMState) *apiutil.WatchEventMessage_PeerEvent {
	return &apiutil.WatchEventMessage_PeerEvent{
		Type: apiutil.PEER_EVENT_STATE,
		Peer: apiutil.Peer{State: apiutil.PeerState{NeighborAddress: someRouter, SessionState: state}},
	}
}

func TestTheEndOfASessionIsReportedOnce(t *testing.T) {
	e := newEvents()
	c, now := e.callbacks(), time.Unix(1000, 0)
	for _, state := range []bgp.FSMState{bgp.BGP_FSM_ACTIVE, bgp.BGP_FSM_ESTABLISHED, bgp.BGP_FSM_IDLE, bgp.BGP_FSM_IDLE, bgp.BGP_FSM_ACTIVE} {
		c.OnPeerUpdate(stateEvent(state), now)
	}
	if n := len(e.lost); n != 1 {
		t.Errorf("the end of the session is reported %d times, want once", n)
	}
	if p := e.of(someRouter); p.flaps != 1 || p.state != peering.Active {
		t.Errorf("the session is %s with %d flaps, want Active with 1", p.state, p.flaps)
	}
}
