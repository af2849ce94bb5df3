package gobgp

import (
	"cmp"
	"maps"
	"net/netip"
	"sync"
	"time"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"github.com/osrg/gobgp/v4/pkg/server"

	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/bgp/peering"
)

// events stores facts that GoBGP reports only once: the time at which a session entered its
// state, and the reason for which the last session ended.
type events struct {
	wake chan struct{}
	// lost carries neighbors whose session went down.
	lost chan netip.Addr

	mu       sync.Mutex
	sessions map[netip.Addr]phase
}

// phase is the history of a session. Its state is that of the last event. GoBGP's list of neighbors may be ahead
// of the events for a moment. An event then wakes the reader of the status.
type phase struct {
	state string
	since time.Time
	why   string
	flaps uint64
	// complete are the families for which the neighbor has sent End-of-RIB (RFC 4724) since the
	// session came up.
	complete map[bgp.Family]bool
}

func newEvents() *events {
	return &events{
		wake:     make(chan struct{}, 1),
		lost:     make(chan netip.Addr, 1024),
		sessions: map[netip.Addr]phase{},
	}
}

// Events signals that neighbors or learned routes may have changed. Several changes cause one
// signal.
func (s *Server) Events() <-chan struct{} { return s.events.wake }

// forget clears the events of a server that has ended.
func (e *events) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.sessions)
	backoff.Poke(e.wake)
}

// callbacks returns the callbacks of a server, which calls them one after another in its own goroutine.
func (e *events) callbacks() server.WatchEventMessageCallbacks {
	return server.WatchEventMessageCallbacks{
		OnPeerUpdate: func(m *apiutil.WatchEventMessage_PeerEvent, at time.Time) {
			if m.Type == apiutil.PEER_EVENT_STATE {
				e.session(m.Peer.State, at)
			}
		},
		OnPathEor: func(path *apiutil.Path, _ time.Time) { e.endOfRIB(path.PeerAddress, path.Family) },
		// These are received routes. GoBGP also has events of best paths, but sends one for each of our own
		// routes too, which doubles the cost of announcing one.
		OnPathUpdate: func([]*apiutil.Path, time.Time) { backoff.Poke(e.wake) },
	}
}

// session handles an event.
func (e *events) session(st apiutil.PeerState, at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.sessions[st.NeighborAddress]
	state := stateNames[st.SessionState]
	if p.state == peering.Established && state != peering.Established {
		p.flaps++
		e.lose(st.NeighborAddress)
	}
	if p.state != state {
		p.state, p.since, p.complete = state, at, nil
	}
	switch st.DisconnectReason {
	case api.PeerState_DISCONNECT_REASON_UNSPECIFIED, api.PeerState_DISCONNECT_REASON_IDLE_TIMER_EXPIRED:
		// The pause before the next attempt is not recorded: it would hide why the last session
		// ended.
	default:
		p.why = cmp.Or(inWords[st.DisconnectMessage], st.DisconnectMessage)
	}
	e.sessions[st.NeighborAddress] = p
	backoff.Poke(e.wake)
}

// lose says that the session with a neighbor went down. If the channel is full, the event is dropped: GoBGP
// begins the next session by itself after a pause.
func (e *events) lose(neighbor netip.Addr) {
	select {
	case e.lost <- neighbor:
	default:
	}
}

// inWords has words instead of texts of GoBGP that do not help to find the mistake. GoBGP does not say why the
// router refused the OPEN message.
var inWords = map[string]string{
	"invalid-msg":        "the router refused this node: it expects another AS number or another family, or it has a session with this node already; its log has the reason",
	"bad-peer-as":        "the router is in another AS than peerAsn says",
	"hold-timer-expired": peering.HoldTimerExpired,
}

// forgetNeighbor drops the history of a neighbor that is removed or added: its reasons belong to an earlier
// configuration. Events of the removed neighbor may come after the removal.
func (e *events) forgetNeighbor(a netip.Addr) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.sessions, a)
}

// endOfRIB records that a neighbor has sent all of its routes of a family.
func (e *events) endOfRIB(neighbor netip.Addr, f bgp.Family) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.sessions[neighbor]
	complete := maps.Clone(p.complete)
	if complete == nil {
		complete = map[bgp.Family]bool{}
	}
	complete[f] = true
	p.complete = complete
	e.sessions[neighbor] = p
	backoff.Poke(e.wake)
}

// of returns the history of a session.
func (e *events) of(a netip.Addr) phase {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sessions[a]
}

func prefixOf(nlri bgp.NLRI) (netip.Prefix, bool) {
	n, ok := nlri.(*bgp.IPAddrPrefix)
	if !ok {
		return netip.Prefix{}, false
	}
	return n.Prefix, true
}

// stateNames are the names of states.
var stateNames = map[bgp.FSMState]string{
	bgp.BGP_FSM_IDLE: peering.Idle, bgp.BGP_FSM_CONNECT: peering.Connect, bgp.BGP_FSM_ACTIVE: peering.Active,
	bgp.BGP_FSM_OPENSENT: peering.OpenSent, bgp.BGP_FSM_OPENCONFIRM: peering.OpenConfirm, bgp.BGP_FSM_ESTABLISHED: peering.Established,
}
