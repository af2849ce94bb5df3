package speaker

import (
	"context"
	"errors"
	"slices"
	"time"

	"purelb.io/purelb/internal/ending"
	"purelb.io/purelb/internal/peering"
)

const (
	// settledFor is how long no address must come or go before the goodbye:
	// the agent of the node may be ending too, and take addresses away.
	settledFor = 500 * time.Millisecond
	// settleLimit is how long the speaker waits for that.
	settleLimit = 3 * time.Second
	// askFor is how long other nodes are asked to be preferred before the
	// sessions end for good.
	askFor = time.Second
	// bfdAfter is how long after a graceful end of BGP that of BFD is told.
	bfdAfter = 500 * time.Millisecond
	// closeLimit is how long the neighbours may take to hear the goodbye.
	closeLimit = 2 * time.Second
)

// Endings tells why this process ends.
type Endings interface {
	Ending(ctx context.Context) ending.Ending
}

// depart ends the sessions. Where another process takes over on this node, and as
// long as addresses are left, the node goes on carrying their traffic: neighbours that
// agreed to graceful restart keep the routes until that process is there, also those that
// ask for other nodes because of the label of this one. In all other cases other nodes are asked to be preferred first, and then the sessions end, and the
// routes with them.
func (s *Speaker) depart(ctx context.Context, w *waits) {
	began := time.Now()
	why := s.whyItEnds(ctx, w, began)
	graceful := why.Cause.KeepsRoutes() && s.imports.total > 0 && !s.drain.Leaving && keepsRoutes(s.governing.state) && s.helped()
	s.Log.InfoContext(ctx, "departing", "node", s.Node, "cause", why.Cause.String(), "reason", why.Reason, "graceful", graceful)
	if !graceful && s.imports.total > 0 && s.governing.running && !s.drain.withdrawn {
		s.askForOthers(ctx, w)
	}
	s.stopReports(ctx, w)
	limited, cancel := context.WithTimeout(ctx, closeLimit)
	defer cancel()
	err := s.Server.Stop(limited, graceful)
	if graceful {
		// FRR ends a BGP session whose BFD is ended on purpose, and forgets its
		// routes, where RFC 5882, section 4.2, has it leave the session alone.
		// So it has to have seen the end of the session first.
		pause(limited, bfdAfter)
	}
	err = errors.Join(err, s.BFD.Close(limited))
	s.governing.running = s.governing.running && graceful
	s.tell(s.standing(time.Now()), s.nodeReport())
	s.Log.InfoContext(ctx, "departed", "node", s.Node, "routes", s.imports.total, "graceful", graceful, "duration", time.Since(began), "error", err)
}

// askForOthers has routers been asked for askFor to prefer other nodes.
func (s *Speaker) askForOthers(ctx context.Context, w *waits) {
	if !s.drain.asks() {
		now := time.Now()
		s.drain = drain{DrainMark: ending.DrainMark{Reason: "the speaker ends"}, since: now, asked: now}
		s.announce(ctx)
		s.governing.wish(now) // no policy takes that back
	}
	s.drain.last = true
	until := s.drain.asked.Add(askFor)
	s.await(ctx, w, func(time.Time) time.Time { return until })
}

// whyItEnds asks why this process ends. If routes may be kept, it also waits until no
// address comes or goes any more.
func (s *Speaker) whyItEnds(ctx context.Context, w *waits, began time.Time) ending.Ending {
	why, known := ending.Ending{Reason: "it is not asked why the process ends"}, s.Endings == nil
	if !known {
		s.beside.start(ctx, func(ctx context.Context) note {
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

// stopReports starts no more reports and applications, and waits for those in flight. The
// report at the end has to be the last one, and a server that has said goodbye would begin
// anew if a configuration was applied to it.
func (s *Speaker) stopReports(ctx context.Context, w *waits) {
	s.leaving = true
	limit := time.Now().Add(closeLimit)
	s.await(ctx, w, func(now time.Time) time.Time {
		switch {
		case s.publishing.busy:
			return now.Add(fullCheck)
		case s.governing.acts():
			return limit
		}
		return now
	})
}

// await goes on taking in what comes until the time that until says.
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

// helped says whether some neighbor with a session has agreed to graceful restart, as far
// as is known. Others lose the routes when the session ends, and are to know it before.
func (s *Speaker) helped() bool {
	up := slices.DeleteFunc(slices.Clone(s.facts.neighbors), func(n peering.NeighborStatus) bool { return n.State != peering.Established })
	return len(up) == 0 || slices.ContainsFunc(up, func(n peering.NeighborStatus) bool { return n.GracefulRestart })
}

// keepsRoutes says whether some neighbour is to keep our routes while we restart.
func keepsRoutes(state peering.State) bool {
	keeps := func(o peering.Options) bool { return o.GracefulRestart.Enabled && !o.GracefulRestart.HelperOnly }
	for _, p := range state.Peers {
		if keeps(p.Options) {
			return true
		}
	}
	for _, g := range state.Groups {
		if keeps(g.Options) {
			return true
		}
	}
	return false
}
