package speaker

import (
	"context"
	"net/netip"
	"reflect"
	"time"

	"purelb.io/purelb/internal/peering"
	"purelb.io/purelb/internal/routing"
)

// exports are the learned routes that go into the kernel.
type exports struct {
	paced
	rules     []peering.ExportRule
	protocol  int
	dampening time.Duration

	retry time.Duration
	// realms are where routes of ours may be: what is in them when rules
	// change has to go.
	realms []routing.Realm
	done   exported
	// ruled says that the rules were decided on once. Until hold, what an
	// earlier process left stays.
	ruled bool
	hold  time.Time
}

// learnAgain is how long what an earlier process put into the kernel stays there
// after a start: until the neighbours have told everything again.
const learnAgain = 10 * time.Second

// recallExports has what an earlier process may have put into the kernel be
// known, by its configuration.
func (s *Speaker) recallExports(ctx context.Context, in Input) {
	if in.Config == nil {
		return
	}
	nowhere := func(netip.Addr) (peering.Egress, bool) { return peering.Egress{}, false }
	d := peering.Decide(in.Config.Spec, in.Node.Node, in.secret, nowhere)
	tables, _, err := tablesOf(ctx, s.Kernel, d.Export)
	if err != nil {
		s.Log.WarnContext(ctx, "exportsNotRecalled", "node", s.Node, "error", err)
	}
	s.exports.realms = realmsOf(d.Export, d.Protocol, tables)
}

// exported is what came of programming the kernel.
type exported struct {
	routes   []routing.Route
	problems []routing.Problem
	// tableOf are the tables of the rules, by their paths, and realms what is
	// ours by them.
	tableOf map[string]uint32
	realms  []routing.Realm
	failure string
}

// rule has the routes be exported that d says.
func (e *exports) rule(now time.Time, d peering.Decision) {
	same := reflect.DeepEqual(e.rules, d.Export) && e.protocol == d.Protocol && e.dampening == d.Dampening
	if same && e.ruled {
		return
	}
	e.rules, e.protocol, e.dampening = d.Export, d.Protocol, d.Dampening
	if !e.ruled && len(e.realms) > 0 && len(e.rules) > 0 {
		e.hold = now.Add(learnAgain)
	}
	e.ruled, e.due = true, time.Time{}
	e.later(now)
}

// wish has the routes be programmed again, when changes were collected for a
// while. More changes do not delay it.
func (e *exports) wish(now time.Time) {
	if len(e.rules) > 0 {
		e.later(now.Add(e.dampening))
	}
}

// later has the routes be programmed at the given time or before, but not, by any
// rules, while what an earlier process left is to stay.
func (e *exports) later(at time.Time) {
	if len(e.rules) > 0 {
		at = latest(at, e.hold)
	}
	e.paced.later(at)
}

// export begins to program the kernel, unless that is under way.
func (s *Speaker) export(now time.Time) {
	e := &s.exports
	if !e.ready(now) {
		return
	}
	if len(e.rules) == 0 && len(e.realms) == 0 {
		e.due, e.done = time.Time{}, exported{}
		return
	}
	e.begin()
	rules, protocol, before := e.rules, e.protocol, e.realms
	s.beside.start(s.life, func(ctx context.Context) note {
		began := time.Now()
		done, err := program(ctx, s.Server, s.Kernel, rules, protocol, before)
		return func(ctx context.Context, now time.Time) {
			e.ended(now, now.Sub(began))
			s.exportedRoutes(ctx, now, done, err)
		}
	})
}

// exportedRoutes notes what came of programming.
func (s *Speaker) exportedRoutes(ctx context.Context, now time.Time, done exported, err error) {
	e := &s.exports
	left := leftover(done.problems)
	switch {
	case err != nil:
		done.failure = err.Error()
		s.broken(err)
	case left != "":
		done.failure = left
		e.realms = joined(done.realms, e.realms)
	default:
		e.realms = done.realms
	}
	if done.failure != e.done.failure && done.failure != "" {
		s.Log.WarnContext(ctx, "exportFailed", "node", s.Node, "error", done.failure)
	}
	if n := len(done.routes); n != len(e.done.routes) {
		s.Log.InfoContext(ctx, "exported", "node", s.Node, "routes", n, "problems", len(done.problems))
	}
	e.done = done
	if done.failure != "" || len(done.problems) > 0 {
		e.retry = min(max(2*e.retry, retryMin), retryMax)
		e.later(now.Add(e.retry))
	} else {
		e.retry = 0
		if len(e.rules) > 0 {
			e.later(now.Add(fullCheck))
		}
	}
	s.facts.wish(now)
}
