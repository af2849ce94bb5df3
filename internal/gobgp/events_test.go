package gobgp

import (
	"net/netip"
	"testing"
	"time"

	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"purelb.io/purelb/internal/peering"
)

// TestWhatWasHeardDoesNotGrowWithoutEnd although neighbors never cease to
// announce what nobody has announced before. Our own routes wake then always.
func TestWhatWasHeardDoesNotGrowWithoutEnd(t *testing.T) {
	e := newEvents()
	woken := func() bool {
		select {
		case <-e.wake:
			return true
		default:
			return false
		}
	}
	ours := []peering.Route{{Prefix: netip.MustParsePrefix("198.51.100.1/32")}}
	for i := range 3 * maxHeard {
		prefix := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 32)
		nlri, err := bgp.NewIPAddrPrefix(prefix)
		if err != nil {
			t.Fatal(err)
		}
		if i == maxHeard {
			woken()
			if e.own(ours); woken() {
				t.Error("a route that nobody else announces wakes")
			}
		}
		e.callbacks().OnPathUpdate([]*apiutil.Path{{Nlri: nlri}}, time.Time{})
		if len(e.heard) > maxHeard {
			t.Fatalf("%d prefixes are remembered", len(e.heard))
		}
	}
	woken()
	if e.own(ours); !woken() {
		t.Error("a route that others may announce does not wake")
	}
	e.forget()
	woken()
	if e.own(ours); woken() {
		t.Error("a route wakes although nothing was heard of the next server")
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

func TestAListThatIsAheadOfTheEventsHidesNoFlapAndMakesNone(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	e := newEvents()
	c := e.callbacks()
	told := func(state string, now, since time.Time, flaps uint64) {
		t.Helper()
		if p := e.seen(someRouter, state, now); p.state != state || !p.since.Equal(since) || p.flaps != flaps {
			t.Errorf("told %s since %v with %d flaps, want %s since %v with %d", p.state, p.since, p.flaps, state, since, flaps)
		}
	}
	told(peering.Idle, at(0), at(0), 0)
	told(peering.Established, at(3), at(3), 0)
	for i, state := range []bgp.FSMState{bgp.BGP_FSM_ACTIVE, bgp.BGP_FSM_OPENSENT, bgp.BGP_FSM_OPENCONFIRM, bgp.BGP_FSM_ESTABLISHED} {
		c.OnPeerUpdate(stateEvent(state), at(1).Add(time.Duration(i)*time.Millisecond))
		told(peering.Established, at(4), at(3), 0) // as was told before
	}
	told(peering.Idle, at(10), at(10), 0)
	c.OnPeerUpdate(stateEvent(bgp.BGP_FSM_IDLE), at(9))
	told(peering.Idle, at(11), at(10), 1)
	c.OnPeerUpdate(stateEvent(bgp.BGP_FSM_ESTABLISHED), at(20))
	told(peering.Idle, at(21), at(21), 1) // the list was read before
	told(peering.Established, at(22), at(20), 1)
}

func TestASessionThatEndsAtItsBeginningBeginsAnewAlsoWhenTheListKnewFirst(t *testing.T) {
	e := newEvents()
	c, now := e.callbacks(), time.Unix(1000, 0)
	c.OnPeerUpdate(stateEvent(bgp.BGP_FSM_ESTABLISHED), now)
	e.seen(someRouter, peering.Idle, now)
	ended := stateEvent(bgp.BGP_FSM_IDLE)
	ended.Peer.State.DisconnectMessage = holdTimerExpired
	c.OnPeerUpdate(ended, now)
	select {
	case got := <-e.stillborn:
		if got != someRouter {
			t.Errorf("it is that of %v", got)
		}
	default:
		t.Error("it does not begin anew")
	}
}

func TestTheLastEventsOfAServerAreNotThoseOfTheNext(t *testing.T) {
	e := newEvents()
	before := e.callbacks()
	e.forget()
	now := time.Unix(1000, 0)
	before.OnPeerUpdate(stateEvent(bgp.BGP_FSM_ESTABLISHED), now)
	e.callbacks().OnPeerUpdate(stateEvent(bgp.BGP_FSM_ACTIVE), now)
	if p := e.seen(someRouter, peering.Active, now); p.flaps != 0 {
		t.Errorf("the session went down %d times, and was never up", p.flaps)
	}
}
