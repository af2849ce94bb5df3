package speaker

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"time"

	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/bgp/routing"
)

// exports is the state of writing learned routes to the kernel.
type exports struct {
	backoff.Schedule
	rules     []peering.ExportRule
	protocol  int
	dampening time.Duration

	done exported
	// ruled says that a decision has set the rules at least once.
	ruled bool
	learning
}

// learning is the time after the start of a BGP server in which neighbors send their routes again.
// Until it is over, the routes in the kernel stay there.
type learning struct {
	since, until time.Time
	over         bool
	// servers is how many BGP servers had ended when it began.
	servers int
}

// learnLimit is the longest that learning takes. A slow neighbor may try to connect only every two
// minutes, and some neighbors never send End-of-RIB.
const learnLimit = 3 * time.Minute

// learn begins learning.
func (l *learning) learn(now time.Time, servers int) {
	*l = learning{since: now, until: now.Add(learnLimit), servers: servers}
}

// learnAnew begins learning again when the BGP server was replaced.
func (s *Speaker) learnAnew(now time.Time) {
	if servers := s.Server.Ended(); servers != s.exports.servers {
		s.exports.learn(now, servers)
	}
}

// heard ends learning when all neighbors of state have sent all their routes, or when
// learnLimit is over.
func (l *learning) heard(now time.Time, state peering.State, there []peering.NeighborStatus) {
	l.over = l.over || !now.Before(l.until) || !slices.ContainsFunc(state.Peers, func(p peering.Peer) bool {
		return !p.AdminDown && !slices.ContainsFunc(there, func(n peering.NeighborStatus) bool {
			return n.Name() == p.Name() && n.Complete && !n.UpSince.Before(l.since)
		})
	})
}

// exported is the result of programming the kernel.
type exported struct {
	routes   []routing.Route
	problems []routing.Problem
	failure  string
}

// rule sets the export rules that d asks for.
func (e *exports) rule(now time.Time, d peering.Decision) {
	same := reflect.DeepEqual(e.rules, d.Export) && e.protocol == d.Protocol && e.dampening == d.Dampening
	if same && e.ruled {
		return
	}
	e.rules, e.protocol, e.dampening = d.Export, d.Protocol, d.Dampening
	e.ruled = true
	e.Ask(now)
}

// askSoon asks to program the routes again after a short pause that collects changes. More changes
// do not delay it.
func (e *exports) askSoon(now time.Time) {
	if len(e.rules) > 0 {
		e.Ask(now.Add(e.dampening))
	}
}

// askNow asks to program the routes again at once: another program may have removed some.
func (e *exports) askNow(now time.Time) {
	if len(e.rules) > 0 {
		e.Ask(now)
	}
}

// export starts to program the kernel.
func (s *Speaker) export(_ context.Context, now time.Time) {
	e := &s.exports
	e.Begin(now)
	s.learnAnew(now)
	if s.governing.running || !now.Before(e.until) {
		e.heard(now, s.governing.state, s.facts.neighbors)
	}
	rules, protocol, servers, keep := e.rules, e.protocol, e.servers, len(e.rules) > 0 && !e.over
	s.background.start(s.life, func(ctx context.Context) completion {
		done, err := program(ctx, s.Server, s.Kernel, rules, protocol, servers, keep)
		return func(ctx context.Context, now time.Time) {
			if errors.Is(err, errAnotherServer) {
				e.End(now, nil)
				e.askSoon(now)
				return
			}
			s.exportedRoutes(ctx, now, done, err)
			if keep && now.Before(e.until) {
				e.Ask(e.until)
			}
		}
	})
}

// exportWhenHeard removes the routes that no neighbor sent again, once all neighbors have
// sent all their routes.
func (s *Speaker) exportWhenHeard(now time.Time) {
	e := &s.exports
	if e.over || !s.governing.running {
		return
	}
	if e.heard(now, s.governing.state, s.facts.neighbors); e.over {
		e.askSoon(now)
	}
}

// exportedRoutes takes in the result of programming.
func (s *Speaker) exportedRoutes(ctx context.Context, now time.Time, done exported, err error) {
	e := &s.exports
	switch problem := misplaced(done.problems); {
	case err != nil:
		done.failure = err.Error()
		s.broken(err)
	case problem != "":
		done.failure = problem
	}
	if done.failure != e.done.failure && done.failure != "" {
		s.Log.WarnContext(ctx, "exportFailed", "node", s.Node, "error", done.failure)
	}
	if n := len(done.routes); n != len(e.done.routes) {
		s.Log.InfoContext(ctx, "exported", "node", s.Node, "routes", n, "problems", len(done.problems))
	}
	e.done = done
	switch {
	case done.failure != "":
		e.End(now, errors.New(done.failure))
	case len(done.problems) > 0:
		e.End(now, done.problems[0].Err)
	default:
		e.End(now, nil)
		if len(e.rules) > 0 {
			e.Ask(now.Add(fullCheck))
		}
	}
	s.facts.askSoon(now)
}
