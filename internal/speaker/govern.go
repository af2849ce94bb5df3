package speaker

import (
	"context"
	"errors"
	"net/netip"
	"reflect"
	"time"

	"purelb.io/purelb/internal/gobgp"
	"purelb.io/purelb/internal/peering"
)

// governing is how the speaker makes the server be what the input means. At any
// time one errand for it is under way: it looks where neighbours are, decides,
// and applies.
type governing struct {
	busy bool
	// due is when to look again; zero: when something happens.
	due   time.Time
	retry time.Duration
	// ended is when the last errand ended, and news says that something came of
	// it.
	ended time.Time
	news  bool

	// decided is what was decided last, from what.
	from     Input
	decided  peering.Decision
	decision bool
	// waiting says that it is to be applied once all addresses are listed.
	waiting bool
	next    application
	// state is what was applied last, running that there is a server at all,
	// begun that there was one in this process.
	state          peering.State
	source         string // of its router ID
	running, begun bool
	// unapplied are the problems of that, and failure is why it could not be
	// done.
	unapplied []peering.Problem
	failure   string
	// found are the neighbours on unnumbered links, by interface.
	found map[string]netip.Addr
	// remembered is the last good input, and fallback that of an earlier
	// process, for when there is no good one from the start.
	remembered *Input
	fallback   *Input
}

// wish has the speaker look again, soon.
func (g *governing) wish(now time.Time) {
	if g.due.IsZero() || now.Before(g.due) {
		g.due = now
	}
}

// later has it look again at the given time, unless it does before.
func (g *governing) later(at time.Time) {
	if g.due.IsZero() || at.Before(g.due) {
		g.due = at
	}
}

// acts says whether an errand is under way, and does not only wait for addresses.
func (g *governing) acts() bool { return g.busy && !g.waiting }

// govern begins to make the server be what the input means, unless that is under
// way or the goodbye is being said.
func (s *Speaker) govern(ctx context.Context, now time.Time) {
	g := &s.governing
	if g.busy || s.leaving || !s.known || g.due.IsZero() || now.Before(g.due) {
		return
	}
	g.busy, g.due = true, time.Time{}
	if s.input.Config == nil {
		s.end(ctx)
		return
	}
	s.decide(ctx, s.input, false)
}

// decide has an errand decide what in means: the input, or what is to be in effect
// instead of it.
func (s *Speaker) decide(ctx context.Context, in Input, instead bool) {
	g := &s.governing
	draining := s.drain.asks()
	s.beside.start(ctx, func(ctx context.Context) note {
		began := time.Now()
		d, err := decided(ctx, s.Kernel, in, draining)
		return func(ctx context.Context, now time.Time) {
			s.Metrics.decided(in.Config, d, now.Sub(began))
			if err != nil {
				s.governed(ctx, now, err)
				return
			}
			if !instead {
				g.news = g.news || !g.decision || !reflect.DeepEqual(g.decided, d)
				g.from, g.decided, g.decision = in, d, true
				s.reporter.resolved(ctx, in.Config, d)
			}
			s.takeDecision(ctx, now, in, d)
		}
	})
}

// decided decides what in means with the world as it is. When that cannot be
// read, nothing is decided.
func decided(ctx context.Context, kernel Kernel, in Input, draining bool) (peering.Decision, error) {
	var errs []error
	seen := map[netip.Addr]peering.Egress{}
	egress := func(neighbor netip.Addr) (peering.Egress, bool) {
		if e, ok := seen[neighbor]; ok {
			return e, true
		}
		e, ok, err := kernel.Egress(ctx, neighbor, in.Config.Spec.Global.BindToDevice)
		if err != nil {
			errs = append(errs, err)
		}
		if ok {
			seen[neighbor] = e
		}
		return e, ok
	}
	node := in.Node.Node
	node.Own, node.Draining = in.Own, draining
	d := peering.Decide(in.Config.Spec, node, in.secret, egress)
	return d, errors.Join(errs...)
}

// takeDecision goes on from what was decided.
func (s *Speaker) takeDecision(ctx context.Context, now time.Time, in Input, d peering.Decision) {
	g := &s.governing
	if s.input.Config == nil {
		g.busy = false // it has been deleted meanwhile
		g.wish(now)
		return
	}
	if last := g.fallback; !d.OK && !g.running && last != nil && last.Config != nil {
		g.fallback = nil
		s.Log.InfoContext(ctx, "lastGoodConfiguration", "node", s.Node, "generation", last.Config.Generation)
		in := *last
		in.Node = s.input.Node
		s.decide(ctx, in, true)
		return
	}
	if !d.OK {
		// What is in effect stays in effect.
		s.governed(ctx, now, nil)
		return
	}
	s.follow(s.life, d, in.Dummy)
	s.advertise(s.life, d.State)
	s.exports.rule(now, d)
	g.waiting = true
	g.next = application{in, d}
	s.applyWhenListed(ctx, now)
}

// application is a state that is to be applied.
type application struct {
	from    Input
	decided peering.Decision
}

// applyWhenListed applies what was decided once everything that is to be
// announced is known, so that neighbours which keep what they had from an earlier
// process hear all of it again before they hear that it is all.
func (s *Speaker) applyWhenListed(ctx context.Context, now time.Time) {
	g := &s.governing
	if !g.waiting || s.leaving || !g.begun && !s.listed() {
		return
	}
	g.waiting = false
	next := g.next
	if !g.needs(next.decided.State) {
		s.rememberBeside(ctx, next.from)
		s.governed(ctx, now, nil)
		return
	}
	restarting := !g.begun && s.imports.total > 0
	known := g.found
	s.beside.start(ctx, func(ctx context.Context) note {
		found := findLinkLocal(ctx, s.Kernel, next.decided.State)
		keepLinkLocal(found, known, next.decided.State)
		problems, err := s.Server.Apply(ctx, next.decided.State.Resolved(found), restarting)
		return func(ctx context.Context, now time.Time) {
			g.found, g.news = found, true
			if err == nil {
				g.state, g.source, g.running, g.begun, g.unapplied = next.decided.State, next.decided.RouterIDSource, true, true, problems
				s.rememberBeside(ctx, next.from)
				s.facts.wish(now)
			}
			if errors.Is(err, gobgp.ErrStopped) {
				g.state, g.running = peering.State{}, false
			}
			s.setSessions(ctx, now)
			s.governed(ctx, now, err)
		}
	})
}

// needs says whether anything has to be applied. Who is behind an unnumbered link
// is for the server to find out.
func (g *governing) needs(wanted peering.State) bool {
	if !g.running || len(g.unapplied) > 0 || g.failure != "" || !reflect.DeepEqual(wanted, g.state) {
		return true
	}
	for _, p := range wanted.Peers {
		if p.Interface != "" {
			return true
		}
	}
	return false
}

// governed ends the errands for this time.
func (s *Speaker) governed(ctx context.Context, now time.Time, err error) {
	g := &s.governing
	g.busy, g.ended = false, now
	s.pulse.Decide()
	before := g.failure
	g.failure = ""
	if err != nil {
		g.failure = err.Error()
		g.news = true
		s.broken(err)
		if g.failure != before {
			s.Log.WarnContext(ctx, "passFailed", "node", s.Node, "error", err)
		}
	} else if before != "" {
		g.news = true
		s.Log.InfoContext(ctx, "recovered", "node", s.Node)
	}
	s.reporter.problems(ctx, s.input.Config, s.problems())
	if err == nil && len(g.unapplied) == 0 {
		g.retry = retryMin
		g.later(now.Add(fullCheck))
	} else {
		g.later(now.Add(max(g.retry, retryMin)))
		g.retry = min(2*max(g.retry, retryMin), retryMax)
	}
	s.Metrics.governed(s.input.Config, err)
	if g.news {
		g.news = false
		s.publish(now)
	}
}

// problems are all that are known of the configuration on this node.
func (s *Speaker) problems() []peering.Problem {
	g := &s.governing
	if !g.decision {
		return nil
	}
	return append(g.decided.Problems[:len(g.decided.Problems):len(g.decided.Problems)], g.unapplied...)
}

// end withdraws everything: there is no configuration any more.
func (s *Speaker) end(ctx context.Context) {
	g := &s.governing
	was := g.running
	for _, i := range s.imports.rules {
		s.unfollow(ctx, i)
	}
	s.advertise(ctx, peering.State{})
	s.exports.rule(time.Now(), peering.Decision{})
	in, began := s.input, time.Now()
	s.beside.start(ctx, func(ctx context.Context) note {
		err := errors.Join(s.Server.Announce(ctx, nil), s.Server.Stop(ctx, false))
		return func(ctx context.Context, now time.Time) {
			g.news = true
			if was {
				s.Metrics.ended(s.reporter.config, now.Sub(began), err)
			}
			if err == nil {
				if was {
					s.Log.InfoContext(ctx, "withdrawn", "node", s.Node, "reason", "there is no BGPConfiguration")
				}
				g.state, g.running, g.unapplied, g.decision, g.waiting = peering.State{}, false, nil, false, false
				g.fallback, g.found, s.facts.neighbors = nil, nil, nil
				s.setSessions(ctx, now) // none, and nobody has been met
				s.rememberBeside(ctx, in)
			}
			s.facts.wish(now)
			s.governed(ctx, now, err)
		}
	})
}
