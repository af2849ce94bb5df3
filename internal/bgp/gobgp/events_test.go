package gobgp

import (
	"net/netip"
	"testing"
	"time"

	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"purelb.io/purelb/internal/bgp/peering"
)

func TestARouteOfANeighborWakesTheReader(t *testing.T) {
	e := newEvents()
	e.callbacks().OnPathUpdate([]*apiutil.Path{{}}, time.Time{})
	select {
	case <-e.wake:
	default:
		t.Error("the reader is not woken")
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

func TestFlapsAreCountedOnceWhenTheListPrecedesTheEvents(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	e := newEvents()
	c := e.callbacks()
	seen := func(state string, now, since time.Time, flaps uint64) {
		t.Helper()
		if p := e.seen(someRouter, state, now); p.state != state || !p.since.Equal(since) || p.flaps != flaps {
			t.Errorf("the peer is %s since %v with %d flaps, want %s since %v with %d", p.state, p.since, p.flaps, state, since, flaps)
		}
	}
	seen(peering.Idle, at(0), at(0), 0)
	seen(peering.Established, at(3), at(3), 0)
	for i, state := range []bgp.FSMState{bgp.BGP_FSM_ACTIVE, bgp.BGP_FSM_OPENSENT, bgp.BGP_FSM_OPENCONFIRM, bgp.BGP_FSM_ESTABLISHED} {
		c.OnPeerUpdate(stateEvent(state), at(1).Add(time.Duration(i)*time.Millisecond))
		seen(peering.Established, at(4), at(3), 0) // the list has shown this state before
	}
	seen(peering.Idle, at(10), at(10), 0)
	c.OnPeerUpdate(stateEvent(bgp.BGP_FSM_IDLE), at(9))
	seen(peering.Idle, at(11), at(10), 1)
	c.OnPeerUpdate(stateEvent(bgp.BGP_FSM_ESTABLISHED), at(20))
	seen(peering.Idle, at(21), at(21), 1) // the list was read before this event
	seen(peering.Established, at(22), at(20), 1)
}

// The event may come after the list has shown the end.
func TestTheEndOfASessionIsReportedOnce(t *testing.T) {
	e := newEvents()
	c, now := e.callbacks(), time.Unix(1000, 0)
	c.OnPeerUpdate(stateEvent(bgp.BGP_FSM_ACTIVE), now)
	c.OnPeerUpdate(stateEvent(bgp.BGP_FSM_ESTABLISHED), now)
	e.seen(someRouter, peering.Idle, now)
	c.OnPeerUpdate(stateEvent(bgp.BGP_FSM_IDLE), now)
	c.OnPeerUpdate(stateEvent(bgp.BGP_FSM_ACTIVE), now)
	if n := len(e.lost); n != 1 {
		t.Errorf("the end of the session is reported %d times, want once", n)
	}
}
