package speaker

import (
	"cmp"
	"context"
	"slices"
	"time"

	"purelb.io/purelb/internal/bgp/bfd"
	"purelb.io/purelb/internal/bgp/peering"
)

// sessions holds the BFD sessions: one for every neighbor that needs one.
type sessions struct {
	set []bfd.Session
	// failure says what is wrong with sessions, or with the network.
	failure string
	// met holds the neighbors that may have a BFD session: their BGP session was established once,
	// or has not come up within bfdAnyway. since is when the wait for it began.
	met   map[string]bool
	since map[string]time.Time
}

// bfdAnyway is how long BFD waits for BGP. Routers in strict mode, and FRR 10 in any mode, do not begin
// BGP before BFD is up. Without this limit each side would wait for the other. Other routers usually
// begin BGP earlier.
const bfdAnyway = 5 * time.Second

// meet updates met and since for the wanted neighbors. It returns when the next neighbor will have
// waited for bfdAnyway, or zero.
func (s *sessions) meet(now time.Time, state peering.State, there []peering.NeighborStatus) (next time.Time) {
	met, since := map[string]bool{}, map[string]time.Time{}
	for _, p := range state.Peers {
		name := p.Name()
		if since[name] = now; !s.since[name].IsZero() {
			since[name] = s.since[name]
		}
		met[name] = s.met[name] || now.Sub(since[name]) >= bfdAnyway || slices.ContainsFunc(there, func(n peering.NeighborStatus) bool {
			return n.Name() == name && n.State == peering.Established
		})
		if at := since[name].Add(bfdAnyway); p.BFD != nil && !met[name] && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	s.met, s.since = met, since
	return next
}

// wantedSessions returns the BFD sessions for state. A neighbor gets a BFD session when its BGP
// session is established for the first time, and keeps it. It gets no BFD session earlier: FRR
// restarts its BFD session when BGP comes up, and ends BGP if that session was already up (FRR
// issue 17337). A neighbor also gets one if its BGP session does not come up for a while.
func wantedSessions(state peering.State, met map[string]bool) []bfd.Session {
	var all []bfd.Session
	for _, p := range state.Peers {
		if p.BFD == nil || p.AdminDown || !met[p.Name()] {
			continue
		}
		all = append(all, bfd.Session{
			Peer: p.Address, Local: p.LocalAddress, Interface: cmp.Or(p.Interface, p.Device),
			MinTransmit: p.BFD.MinTransmit, MinReceive: p.BFD.MinReceive, Multiplier: p.BFD.Multiplier,
			Multihop: p.BFD.MinTTL > 0, MinTTL: p.BFD.MinTTL, Passive: p.BFD.Passive,
		})
	}
	return all
}

// setSessions gives BFD the sessions that the neighbors need.
func (s *Speaker) setSessions(ctx context.Context, now time.Time) {
	s.facts.Ask(s.sessions.meet(now, s.governing.applied.State, s.facts.neighbors))
	wanted := wantedSessions(s.governing.applied.sent, s.sessions.met)
	if slices.Equal(wanted, s.sessions.set) && s.sessions.failure == "" {
		return
	}
	s.sessions.set = wanted
	before := s.sessions.failure
	s.sessions.failure = ""
	if err := s.BFD.Set(ctx, wanted); err != nil {
		s.sessions.failure = err.Error()
		s.governing.Ask(now.Add(retryMax))
		if before != err.Error() {
			s.Log.WarnContext(ctx, "bfdFailed", "node", s.Node, "error", err)
		}
	}
}

// hear handles a change of a BFD session. If BFD lost the neighbor, the speaker ends the BGP
// session. If an operator turned BFD off, or the neighbor restarts its BFD session, the path
// is still good (RFC 5882, section 4.2).
func (s *Speaker) hear(ctx context.Context, now time.Time, e bfd.Event) {
	s.Metrics.bfdChanged(e)
	s.facts.askSoon(now)
	if e.From != bfd.Up {
		s.Log.DebugContext(ctx, "bfdState", "node", s.Node, "neighbor", e.Peer, "state", e.To)
		if e.To == bfd.Up {
			s.governing.Ask(now) // the path to the neighbor may have changed
		}
		return
	}
	if !e.Failed() {
		s.Log.InfoContext(ctx, "bfdEnded", "node", s.Node, "neighbor", e.Peer, "state", e.To, "by_operator", e.RemoteAdminDown)
		return
	}
	s.reporter.bfdDown(ctx, s.input.Config, e)
	s.background.start(s.life, func(ctx context.Context) completion {
		err := s.Server.Down(ctx, e.Peer)
		if err == nil {
			return nil
		}
		return func(ctx context.Context, _ time.Time) {
			s.broken(err)
			s.Log.WarnContext(ctx, "resetFailed", "node", s.Node, "neighbor", e.Peer, "error", err)
		}
	})
}
