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
