package speaker

import (
	"context"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"time"

	"purelb.io/purelb/internal/peering"
	"purelb.io/purelb/internal/routing"
)

// exports are the learned routes that go into the kernel.
type exports struct {
	rules     []peering.ExportRule
	protocol  int
	dampening time.Duration

	busy bool
	// due is when to program; zero: when something happens.
	due   time.Time
	retry time.Duration
	// tables are those that routes of ours may be in, by protocol: what was
	// in them when rules change has to go.
	tables map[int]map[uint32]bool
	done   exported
	// ruled says that the rules were decided on once. Until hold, what an
	// earlier process left stays.
	ruled bool
	hold  time.Time
}

// learnAgain is how long what an earlier process put into the kernel stays there
// after a start: until the neighbours have told everything again.
const learnAgain = 10 * time.Second

// recall has what an earlier process may have put into the kernel be known, by
// its configuration.
func (s *Speaker) recallExports(ctx context.Context, in Input) {
	if in.Config == nil {
		return
	}
	nowhere := func(netip.Addr) (peering.Egress, bool) { return peering.Egress{}, false }
	d := peering.Decide(in.Config.Spec, in.Node.Node, in.secret, nowhere)
	for _, r := range d.Export {
		table := r.Table
		if r.Device != "" {
			var err error
			if table, _, err = s.Kernel.VRFTable(ctx, r.Device); err != nil || table == 0 {
				continue
			}
		}
		if s.exports.tables == nil {
			s.exports.tables = map[int]map[uint32]bool{d.Protocol: {}}
		}
		s.exports.tables[d.Protocol][table] = true
	}
}

// exported is what came of programming the kernel.
type exported struct {
	routes   []routing.Route
	problems []routing.Problem
	// tableOf are the tables of the rules, by their paths.
	tableOf map[string]uint32
	failure string
}

// rule has the routes be exported that d says.
func (e *exports) rule(now time.Time, d peering.Decision) {
	same := reflect.DeepEqual(e.rules, d.Export) && e.protocol == d.Protocol && e.dampening == d.Dampening
	if same && e.ruled {
		return
	}
	e.rules, e.protocol, e.dampening, e.due = d.Export, d.Protocol, d.Dampening, now
	if !e.ruled && len(e.tables) > 0 && len(e.rules) > 0 {
		e.hold = now.Add(learnAgain)
		e.due = e.hold
	}
	e.ruled = true
}

// wish has the routes be programmed again, when changes were collected for a
// while. More changes do not delay it.
func (e *exports) wish(now time.Time) {
	if len(e.rules) > 0 && !now.Before(e.hold) {
		e.later(now.Add(e.dampening))
	}
}

// export begins to program the kernel, unless that is under way.
func (s *Speaker) export(now time.Time) {
	e := &s.exports
	if e.busy || e.due.IsZero() || now.Before(e.due) {
		return
	}
	if len(e.rules) == 0 && len(e.tables) == 0 {
		e.due, e.done = time.Time{}, exported{}
		return
	}
	e.busy, e.due = true, time.Time{}
	rules, protocol := e.rules, e.protocol
	before := map[int][]uint32{}
	for p, tables := range e.tables {
		before[p] = slices.Sorted(maps.Keys(tables))
	}
	s.beside.start(s.life, func(ctx context.Context) note {
		done, err := program(ctx, s.Server, s.Kernel, rules, protocol, before)
		return func(ctx context.Context, now time.Time) { s.exportedRoutes(ctx, now, protocol, done, err) }
	})
}

// program makes the kernel have what the rules say, and nothing more in the
// tables that had something before.
func program(ctx context.Context, server Server, kernel Kernel, rules []peering.ExportRule, protocol int, before map[int][]uint32) (done exported, err error) {
	if done.tableOf, done.failure, err = tablesOf(ctx, kernel, rules); err != nil {
		return done, err
	}
	if len(rules) > 0 {
		learned, err := server.Learned(ctx)
		if err != nil {
			return done, err
		}
		done.routes = exportable(rules, learned, done.tableOf)
		tables := append(slices.Collect(maps.Values(done.tableOf)), before[protocol]...)
		if done.problems, err = kernel.Program(ctx, done.routes, protocol, tables...); err != nil {
			return done, err
		}
	}
	for other, its := range before {
		if other == protocol && len(rules) > 0 {
			continue
		}
		if _, err := kernel.Program(ctx, nil, other, its...); err != nil {
			return done, err
		}
	}
	return done, nil
}

// tablesOf finds the routing tables of the rules, by their paths. missing is what
// is wrong with one of those that have none.
func tablesOf(ctx context.Context, kernel Kernel, rules []peering.ExportRule) (tables map[string]uint32, missing string, err error) {
	tables = map[string]uint32{}
	for _, r := range rules {
		if r.Device == "" {
			tables[r.Path] = r.Table
			continue
		}
		table, ok, err := kernel.VRFTable(ctx, r.Device)
		if err != nil {
			return nil, "", err
		}
		if !ok {
			missing = r.Path + ": there is no VRF device " + r.Device
			continue
		}
		tables[r.Path] = table
	}
	return tables, missing, nil
}

// exportedRoutes notes what came of programming.
func (s *Speaker) exportedRoutes(ctx context.Context, now time.Time, protocol int, done exported, err error) {
	e := &s.exports
	e.busy = false
	if err != nil {
		done.failure = err.Error()
		s.broken(err)
	} else {
		e.tables = map[int]map[uint32]bool{}
		if len(done.tableOf) > 0 {
			e.tables[protocol] = map[uint32]bool{}
			for _, table := range done.tableOf {
				e.tables[protocol][table] = true
			}
		}
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

func (e *exports) later(at time.Time) {
	if e.due.IsZero() || at.Before(e.due) {
		e.due = at
	}
}

// exportable are the routes that the rules let into the kernel, of what was
// learned. Equally good ways to one prefix are one route.
func exportable(rules []peering.ExportRule, learned []peering.LearnedRoute, tableOf map[string]uint32) []routing.Route {
	type place struct {
		prefix        netip.Prefix
		table, metric uint32
	}
	at := map[place]int{}
	var all []routing.Route
	for _, rule := range rules {
		table, ok := tableOf[rule.Path]
		if !ok {
			continue
		}
		for _, l := range learned {
			if !meets(rule, l) {
				continue
			}
			key := place{l.Prefix, table, rule.Metric}
			i, ok := at[key]
			if !ok {
				i = len(all)
				at[key] = i
				all = append(all, routing.Route{
					Prefix: l.Prefix, Table: table, Metric: rule.Metric,
					ValidateNextHop: rule.ValidateNextHop, AllowDefault: rule.AllowDefault,
				})
			}
			// Of rules for one place, the strictest counts.
			all[i].ValidateNextHop = all[i].ValidateNextHop || rule.ValidateNextHop
			if !slices.Contains(all[i].NextHops, l.NextHop) {
				all[i].NextHops = append(all[i].NextHops, l.NextHop)
			}
		}
	}
	return all
}

// meets says whether a rule is for a route.
func meets(rule peering.ExportRule, l peering.LearnedRoute) bool {
	if rule.VRF != l.VRF || l.Prefix.Bits() == 0 && !rule.AllowDefault {
		return false
	}
	if len(rule.Communities) == 0 && len(rule.LargeCommunities) == 0 {
		return true
	}
	return slices.ContainsFunc(rule.Communities, func(c uint32) bool { return slices.Contains(l.Communities, c) }) ||
		slices.ContainsFunc(rule.LargeCommunities, func(c string) bool { return slices.Contains(l.LargeCommunities, c) })
}
