package speaker

import (
	"context"
	"errors"
	"slices"
	"time"

	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/nodes/ending"
)

const (
	// settledFor is the time without a change of addresses after which the speaker ends its
	// sessions. The agent of the node may end at the same time, and remove addresses.
	settledFor = 500 * time.Millisecond
	// settleLimit is the longest that the speaker waits for that.
	settleLimit = 3 * time.Second
	// askFor is how long the speaker asks routers to prefer other nodes before it ends the
	// sessions for good.
	askFor = time.Second
	// bfdAfter is the time between a graceful end of BGP and the end of BFD.
	bfdAfter = 500 * time.Millisecond
	// closeLimit is how long the neighbors may take to receive the end of the sessions.
	closeLimit = 2 * time.Second
)

// Endings returns the reason why this process ends.
type Endings interface {
	Ending(ctx context.Context) ending.Ending
}

// depart ends the sessions. If another process takes over on this node and the node still has
// addresses, neighbors that agreed to graceful restart keep the routes until that process is there,
// and the node goes on carrying the traffic. The speaker does the same while the exclude label asks
// routers to prefer other nodes. In all other cases the speaker first asks routers to prefer other
// nodes, and then ends the sessions and with them the routes.
func (s *Speaker) depart(ctx context.Context, w *waits) {
	began := time.Now()
	why := s.whyItEnds(ctx, w, began)
	graceful := why.Cause.KeepsRoutes() && s.imports.total > 0 && !s.drain.Leaving && keepsRoutes(s.governing.applied.State) && s.helped()
	s.Log.InfoContext(ctx, "departing", "node", s.Node, "cause", why.Cause.String(), "reason", why.Reason, "graceful", graceful)
	if !graceful && s.imports.total > 0 && s.governing.running && !s.drain.withdrawn {
		s.askForOthers(ctx, w)
	}
	s.stopReports(ctx, w)
	limited, cancel := context.WithTimeout(ctx, closeLimit)
	defer cancel()
	err := s.Server.Stop(limited, graceful)
	if graceful {
		// By RFC 5882, section 4.2, a BGP session stays up when its BFD session is ended on
		// purpose. FRR ends the BGP session and forgets its routes. So FRR has to see the end
		// of the BGP session first.
		backoff.Sleep(limited, bfdAfter)
	}
	err = errors.Join(err, s.BFD.Close(limited))
	if !graceful {
		s.governing.running, s.governing.applied = false, applied{}
	}
	s.publishStanding(s.standing(time.Now()), s.nodeReport())
	s.Log.InfoContext(ctx, "departed", "node", s.Node, "routes", s.imports.total, "graceful", graceful, "duration", time.Since(began), "error", err)
}

// askForOthers asks routers to prefer other nodes, and waits for askFor.
func (s *Speaker) askForOthers(ctx context.Context, w *waits) {
	if !s.drain.asks() {
		now := time.Now()
		s.drain = drain{DrainMark: ending.DrainMark{Reason: "the speaker ends"}, since: now, asked: now}
		s.announceSoon(now)
	}
	s.drain.last = true
	until := s.drain.asked.Add(askFor)
	s.await(ctx, w, func(time.Time) time.Time { return until })
}

// whyItEnds returns why this process ends. If routers may keep the routes, it first waits until the
// addresses no longer change.
func (s *Speaker) whyItEnds(ctx context.Context, w *waits, began time.Time) ending.Ending {
	why, known := ending.Ending{Reason: "it is not asked why the process ends"}, s.Endings == nil
	if !known {
		s.background.start(ctx, func(ctx context.Context) completion {
			answer := s.Endings.Ending(ctx)
			return func(context.Context, time.Time) { why, known = answer, true }
		})
	}
	s.imports.changed = began
	limit := began.Add(settleLimit)
	s.await(ctx, w, func(now time.Time) time.Time {
		settled := s.imports.changed.Add(settledFor)
		switch {
		case known && !why.Cause.KeepsRoutes():
			return now
		case known && settled.Before(limit):
			return settled
		}
		return limit
	})
	return why
}

// stopReports stops reports and applications of the configuration, and waits for those in flight.
// The report at the end must be the last one. If the speaker applied a configuration to a server
// that has ended its sessions, the server would start again.
func (s *Speaker) stopReports(ctx context.Context, w *waits) {
	s.leaving = true
	limit := time.Now().Add(closeLimit)
	s.await(ctx, w, func(now time.Time) time.Time {
		switch {
		case s.publishing.Busy():
			return now.Add(fullCheck)
		case s.governing.Busy():
			return limit
		}
		return now
	})
}

// await runs the loop until the time that until returns.
func (s *Speaker) await(ctx context.Context, w *waits, until func(now time.Time) time.Time) {
	for now := time.Now(); ; now = time.Now() {
		end := until(now)
		if !now.Before(end) {
			return
		}
		s.pass(ctx, now)
		limited, cancel := context.WithDeadline(ctx, end)
		s.wait(limited, w)
		cancel()
	}
}

// helped reports whether a neighbor with a session is known to have agreed to graceful
// restart. Other neighbors drop the routes when the session ends, so they have to be asked
// first to prefer other nodes.
func (s *Speaker) helped() bool {
	up := slices.DeleteFunc(slices.Clone(s.facts.neighbors), func(n peering.NeighborStatus) bool { return n.State != peering.Established })
	return len(up) == 0 || slices.ContainsFunc(up, func(n peering.NeighborStatus) bool { return n.GracefulRestart })
}

// keepsRoutes reports whether state asks a neighbor to keep our routes while we restart.
func keepsRoutes(state peering.State) bool {
	return slices.ContainsFunc(state.Peers, func(p peering.Peer) bool { return p.GracefulRestart.Enabled && !p.GracefulRestart.HelperOnly })
}
