package speaker

import (
	"context"
	"reflect"
	"slices"
	"time"

	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/bgp/peering"
)

// exports is the state of writing learned routes to the kernel.
type exports struct {
	backoff.Schedule
	rules     []peering.ExportRule
	protocol  int
	dampening time.Duration

	// done are the routes that were to be in the kernel last, and failure is why that failed.
	done    []peering.Exported
	failure string
	// ruled says that a decision has set the rules at least once.
	ruled bool
	// since is when this process began. heard says that neighbors have sent all their routes since then.
	since time.Time
	heard bool
}

// learnLimit is how long routes stay in the kernel that no neighbor has sent since the process began. A
// slow neighbor may try to connect only every two minutes, and some neighbors never send End-of-RIB.
const learnLimit = 3 * time.Minute

// learning reports whether neighbors may have routes that they have not sent yet.
func (s *Speaker) learning(now time.Time) bool {
	e := &s.exports
	e.heard = e.heard || now.Sub(e.since) >= learnLimit || s.governing.running && allComplete(s.governing.applied.State, s.facts.neighbors)
	return !e.heard
}

// allComplete reports whether all neighbors of state have sent all their routes.
func allComplete(state peering.State, there []peering.NeighborStatus) bool {
	return !slices.ContainsFunc(state.Peers, func(p peering.Peer) bool {
		return !p.AdminDown && !slices.ContainsFunc(there, func(n peering.NeighborStatus) bool { return n.Name() == p.Name() && n.Complete })
	})
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
	keep := s.learning(now) && len(e.rules) > 0
	rules, protocol := e.rules, e.protocol
	s.background.start(s.life, func(ctx context.Context) completion {
		done, err := program(ctx, s.Server, s.Kernel, rules, protocol, keep)
		return func(ctx context.Context, now time.Time) {
			s.exportedRoutes(ctx, now, done, err)
			if keep {
				e.Ask(e.since.Add(learnLimit))
			}
		}
	})
}

// exportWhenHeard removes the routes that no neighbor sent again, once all neighbors have
// sent all their routes.
func (s *Speaker) exportWhenHeard(now time.Time) {
	if !s.exports.heard && !s.learning(now) {
		s.exports.askSoon(now)
	}
}

// exportedRoutes takes in the result of programming.
func (s *Speaker) exportedRoutes(ctx context.Context, now time.Time, done []peering.Exported, err error) {
	e := &s.exports
	before := e.failure
	e.failure = ""
	if err != nil {
		e.failure = err.Error()
		s.broken(err)
		if e.failure != before {
			s.Log.WarnContext(ctx, "exportFailed", "node", s.Node, "error", err)
		}
	}
	problems := 0
	for _, r := range done {
		if r.Reason != "" {
			problems++
		}
	}
	if len(done) != len(e.done) {
		s.Log.InfoContext(ctx, "exported", "node", s.Node, "routes", len(done), "problems", problems)
	}
	e.done = done
	if err == nil && problems > 0 {
		err = errUnapplied
	}
	e.End(now, err)
	if err == nil && len(e.rules) > 0 {
		e.Ask(now.Add(fullCheck))
	}
	s.facts.askSoon(now)
}
