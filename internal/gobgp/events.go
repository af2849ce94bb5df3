package gobgp

import (
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"github.com/osrg/gobgp/v4/pkg/server"

	"purelb.io/purelb/internal/peering"
)

// maxHeard is how many prefixes of neighbours are told apart from others.
const maxHeard = 4096

// events remember what GoBGP says only once: since when a session is as it is,
// and why the last one ended.
type events struct {
	wake chan struct{}
	// stillborn are neighbours with which a session ended at its beginning. One
	// that finds no place comes again.
	stillborn chan netip.Addr

	mu       sync.Mutex
	sessions map[netip.Addr]phase
	// heard are the prefixes that neighbours ever announced; GoBGP does not
	// tell when a route of our own takes the place of theirs. There may have
	// been too many to know them, and then any route of our own may.
	heard   map[netip.Prefix]struct{}
	tooMany bool
}

// phase is what became of a session.
type phase struct {
	state string
	since time.Time
	why   string
	flaps uint64
}

func newEvents() *events {
	return &events{
		wake:      make(chan struct{}, 1),
		stillborn: make(chan netip.Addr, 64),
		sessions:  map[netip.Addr]phase{},
		heard:     map[netip.Prefix]struct{}{},
	}
}

// Events wakes when neighbours or what was learned from them may have changed.
// Several changes are one event.
func (s *Server) Events() <-chan struct{} { return s.events.wake }

// forget is for a server that has ended.
func (e *events) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.sessions)
	clear(e.heard)
	e.tooMany = false
	e.ring()
}

func (e *events) ring() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// callbacks are called by GoBGP on a goroutine of its own, one after the other.
func (e *events) callbacks() server.WatchEventMessageCallbacks {
	return server.WatchEventMessageCallbacks{
		OnPeerUpdate: func(m *apiutil.WatchEventMessage_PeerEvent, at time.Time) {
			if m.Type == apiutil.PEER_EVENT_STATE {
				e.session(m.Peer.State, at)
			}
		},
		OnPathUpdate: func(paths []*apiutil.Path, _ time.Time) { e.paths(paths) },
	}
}

func (e *events) session(st apiutil.PeerState, at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.sessions[st.NeighborAddress]
	state := stateName(st.SessionState)
	if p.state == peering.Established && state != peering.Established {
		p.flaps++
		if at.Sub(p.since) < stillborn && strings.Contains(st.DisconnectMessage, holdTimerExpired) {
			select {
			case e.stillborn <- st.NeighborAddress:
			default:
			}
		}
	}
	if p.state != state {
		p.state, p.since = state, at
	}
	switch st.DisconnectReason {
	case api.PeerState_DISCONNECT_REASON_UNSPECIFIED, api.PeerState_DISCONNECT_REASON_IDLE_TIMER_EXPIRED:
		// The pause before the next attempt is no reason: it would hide that
		// of the last one.
	default:
		p.why = st.DisconnectMessage
	}
	e.sessions[st.NeighborAddress] = p
	e.ring()
}

// seen is what became of a session, given the state that it is in by GoBGP's
// list, which may be ahead of the events.
func (e *events) seen(a netip.Addr, state string, now time.Time) phase {
	e.mu.Lock()
	defer e.mu.Unlock()
	p, known := e.sessions[a]
	if !known || p.state != state {
		p.state, p.since = state, now
		e.sessions[a] = p
	}
	return p
}

// retain forgets sessions with neighbours that are gone.
func (e *events) retain(there map[netip.Addr]bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for a := range e.sessions {
		if !there[a] {
			delete(e.sessions, a)
		}
	}
}

// paths notes what neighbours have announced or withdrawn. These events are those
// of received routes: GoBGP's events of best paths come also for each of our own
// routes, and double what it costs to announce one.
func (e *events) paths(paths []*apiutil.Path) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, path := range paths {
		if prefix, ok := prefixOf(path.Nlri); ok {
			e.hear(prefix)
			e.ring()
		}
	}
}

func (e *events) hear(prefix netip.Prefix) {
	if e.tooMany {
		return
	}
	e.heard[prefix] = struct{}{}
	if len(e.heard) > maxHeard {
		e.heard, e.tooMany = map[netip.Prefix]struct{}{}, true
	}
}

// own tells when our own routes change what is best.
func (e *events) own(routes []peering.Route) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.heard) == 0 && !e.tooMany {
		return
	}
	for _, r := range routes {
		if _, is := e.heard[r.Prefix]; is || e.tooMany {
			e.ring()
			return
		}
	}
}

func prefixOf(nlri bgp.NLRI) (netip.Prefix, bool) {
	switch n := nlri.(type) {
	case *bgp.IPAddrPrefix:
		return n.Prefix, true
	case *bgp.LabeledVPNIPAddrPrefix:
		return n.Prefix, true
	}
	return netip.Prefix{}, false
}

func stateName(s bgp.FSMState) string {
	switch s {
	case bgp.BGP_FSM_CONNECT:
		return peering.Connect
	case bgp.BGP_FSM_ACTIVE:
		return peering.Active
	case bgp.BGP_FSM_OPENSENT:
		return peering.OpenSent
	case bgp.BGP_FSM_OPENCONFIRM:
		return peering.OpenConfirm
	case bgp.BGP_FSM_ESTABLISHED:
		return peering.Established
	}
	return peering.Idle
}
