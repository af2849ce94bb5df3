package speaker

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/bgp/peering"
)

// publishing is the state of publishing the standing. Sorting ten thousand routes takes a while, so
// the speaker publishes in the background, one standing at a time.
type publishing struct {
	backoff.Schedule
	// since is when the first of the present addresses of each family was imported. It is replaced, and
	// never changed.
	since map[addr.Family]time.Time
}

// defaultHeartbeat is the heartbeat of a node without a configuration.
const defaultHeartbeat = time.Minute

// publishSoon makes publish run in this or the next pass. It does nothing before the speaker knows
// its configuration.
func (s *Speaker) publishSoon(now time.Time) {
	if s.known {
		s.publishing.Ask(now)
	}
}

// publishes returns when publish must run, or zero.
func (s *Speaker) publishes() time.Time {
	if s.leaving {
		return time.Time{}
	}
	return s.publishing.Next()
}

// publish starts to publish the standing.
func (s *Speaker) publish(_ context.Context, now time.Time) {
	s.publishing.Begin(now)
	st, report := s.standing(now), s.nodeReport()
	s.background.start(s.life, func(context.Context) completion {
		s.publishStanding(st, report)
		return func(_ context.Context, now time.Time) { s.publishing.End(now, nil) }
	})
}

// nodeReport returns a NodeReport without its status.
func (s *Speaker) nodeReport() NodeReport {
	g := &s.governing
	report := NodeReport{Enabled: true, NodeUID: string(s.input.Node.UID), Heartbeat: defaultHeartbeat}
	if d := g.decision; d.OK {
		report.Enabled, report.Heartbeat = d.StatusEnabled, cmp.Or(d.Heartbeat, defaultHeartbeat)
	}
	if s.reporter.noNode {
		report.Enabled = false // the garbage collector would delete the object again and again
	}
	return report
}

// publishStanding writes st to the status, the metrics and /state.
func (s *Speaker) publishStanding(st standing, report NodeReport) {
	if st.running && !st.outOfSync {
		st.Local, _ = st.announceable.routes(st.Imported)
	}
	last := cmp.Or(s.published.Load(), &standing{})
	report.Status = peering.NodeStatus(st.Report, last.status)
	report.Status.HeartbeatSeconds = int32(report.Heartbeat / time.Second)
	st.status = report.Status
	s.Reports.Node(report)
	s.Metrics.observe(&st)
	s.published.Store(&st)
}

// sinceOf returns since when there are addresses of each family. before is the result of the last time.
func sinceOf(imported []peering.Imported, before map[addr.Family]time.Time, now time.Time) map[addr.Family]time.Time {
	since := map[addr.Family]time.Time{}
	for _, i := range imported {
		f := addr.FamilyOf(i.Address.Addr())
		if since[f] = now; !before[f].IsZero() {
			since[f] = before[f]
		}
	}
	return since
}

// standing returns the state of this node without its routes.
func (s *Speaker) standing(now time.Time) standing {
	g := &s.governing
	st := standing{
		Report: peering.Report{
			Node: s.Node, Now: now, Unconfigured: s.input.Config == nil, Leaving: s.leaving,
			Decision: g.decision, Unapplied: g.applied.problems, Pending: g.staggered,
			Neighbors: s.shownNeighbors(), Interfaces: s.facts.interfaces, Learned: s.facts.learned, Exported: s.exports.done,
		},
		config: s.input.Config, effect: g.applied.Decision, running: g.running, problems: g.problems(), outOfSync: s.imports.outOfSync,
		announceable: s.announceable(g.applied.input.Attributes), bfd: s.facts.bfd, drain: s.drain,
	}
	if d := st.Decision; st.running && (!d.OK || !st.Pending.IsZero()) {
		st.Decision = st.effect // the earlier decision is still in effect
		st.Decision.OK, st.Decision.Problems = d.OK, d.Problems
	}
	if s.drain.withdrawn {
		st.Withdrawn = s.drain.Reason
	}
	st.BFD = bfdStates(st.bfd, st.Neighbors)
	st.Imported, st.Elsewhere = s.announcedHere(s.imported())
	s.publishing.since = sinceOf(st.Imported, s.publishing.since, now)
	st.Since = s.publishing.since
	s.noteFailures(&st)
	return st
}

// noteFailures adds what failed.
func (s *Speaker) noteFailures(st *standing) {
	st.note(s.governing.failure)
	st.note(s.facts.failure)
	st.note(s.exports.failure)
	st.note(s.sessions.failure)
	for _, name := range slices.Sorted(maps.Keys(s.penalties)) {
		st.note(fmt.Sprintf("there is no session with %s: %s", name, s.penalties[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(s.input.Outdated)) {
		st.note(fmt.Sprintf("%s: the password that was there before is in use", s.input.Outdated[name]))
	}
	if i := s.imports.importer; i != nil {
		st.note(i.failure)
	}
	if st.outOfSync {
		st.note("the BGP server does not announce all that it should")
	}
}
