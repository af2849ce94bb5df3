package gobgp

import (
	"maps"
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

	mu sync.Mutex
	// server counts the servers that have ended: the last events of one are not
	// those of the next.
	server   int
	sessions map[netip.Addr]phase
	// heard are the prefixes that neighbours ever announced; GoBGP does not
	// tell when a route of our own takes the place of theirs. There may have
	// been too many to know them, and then any route of our own may.
	heard   map[netip.Prefix]struct{}
	tooMany bool
}

// phase is what became of a session.
//
// GoBGP's list of neighbours may be ahead of its events. What the list says is
// told, but only events count: a state that the list had first would otherwise
// hide that the session went down, and an event from before would look like that.
type phase struct {
	// state is that of the last event. It began at began; since is the time that the
	// status shows for it.
	state        string
	since, began time.Time
	// ahead is the state of the list if no event has told it yet, first seen at
	// sighted.
	ahead   string
	sighted time.Time
	why     string
	flaps   uint64
	// told are the families of which the neighbor has sent the end of its routes
	// (End-of-RIB, RFC 4724) since the session came up.
	told map[bgp.Family]bool
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
	e.server++
	clear(e.sessions)
	clear(e.heard)
	e.tooMany = false
	e.ring()
}

// ended is how many servers have ended.
func (e *events) ended() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.server
}

func (e *events) ring() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// callbacks are called by the next server, on a goroutine of its own, one after the
// other.
func (e *events) callbacks() server.WatchEventMessageCallbacks {
	e.mu.Lock()
	of := e.server
	e.mu.Unlock()
	ifThere := func(take func()) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.server == of {
			take()
		}
	}
	return server.WatchEventMessageCallbacks{
		OnPeerUpdate: func(m *apiutil.WatchEventMessage_PeerEvent, at time.Time) {
			if m.Type == apiutil.PEER_EVENT_STATE {
				ifThere(func() { e.session(m.Peer.State, at) })
			}
		},
		OnPathEor: func(path *apiutil.Path, _ time.Time) {
			ifThere(func() { e.endOfRIB(path.PeerAddress, path.Family) })
		},
		OnPathUpdate: func(paths []*apiutil.Path, _ time.Time) { ifThere(func() { e.paths(paths) }) },
	}
}

// session takes in an event. The caller holds mu.
func (e *events) session(st apiutil.PeerState, at time.Time) {
	p := e.sessions[st.NeighborAddress]
	state := stateName(st.SessionState)
	if p.state == peering.Established && state != peering.Established {
		p.flaps++
		if at.Sub(p.began) < stillborn && strings.Contains(st.DisconnectMessage, holdTimerExpired) {
			select {
			case e.stillborn <- st.NeighborAddress:
			default:
			}
		}
	}
	p = p.enter(state, at)
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

// endOfRIB notes that a neighbor has sent all of its routes of a family. The caller
// holds mu.
func (e *events) endOfRIB(neighbor netip.Addr, f bgp.Family) {
	p := e.sessions[neighbor]
	told := maps.Clone(p.told)
	if told == nil {
		told = map[bgp.Family]bool{}
	}
	told[f] = true
	p.told = told
	e.sessions[neighbor] = p
	e.ring()
}

// enter is p after the event of a state. What was told of the beginning of a state
// that the list had first stays so.
func (p phase) enter(state string, at time.Time) phase {
	if p.state != state {
		p.state, p.since, p.began, p.told = state, at, at, nil
		if p.ahead == state && !at.After(p.sighted) {
			p.since = p.sighted
		}
	}
	if p.ahead == state || at.After(p.sighted) {
		p.ahead = ""
	}
	return p
}

// seen is what became of a session, given the state that it is in by GoBGP's
// list.
func (e *events) seen(a netip.Addr, state string, now time.Time) phase {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.sessions[a]
	switch state {
	case p.state:
		p.ahead = ""
	case p.ahead:
	default:
		p.ahead, p.sighted = state, now
	}
	e.sessions[a] = p
	if p.ahead != "" {
		p.state, p.since = p.ahead, p.sighted
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
// routes, and double what it costs to announce one. The caller holds mu.
func (e *events) paths(paths []*apiutil.Path) {
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
