package speaker

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"time"

	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/bgp/gobgp"
	"purelb.io/purelb/internal/bgp/intent"
	"purelb.io/purelb/internal/bgp/peering"
)

// governing is the state of applying the input to the server. At most one task for it runs at a
// time: the task finds the neighbors on unnumbered links, decides, and applies.
type governing struct {
	backoff.Schedule
	// ended is when the last task ended. news says that the task changed something to report.
	ended time.Time
	news  bool

	// decided is the last decision about the current input.
	decided  peering.Decision
	decision bool
	// waiting says that next must be applied once all addresses are listed.
	waiting bool
	next    application
	// staggered is when the speaker applies a change that ends sessions. It is zero while there
	// is no such change.
	staggered time.Time
	// state is the last applied State. running says that the server runs. begun says that this
	// process has had a server before.
	state          peering.State
	effect         application       // its decision
	enforced       intent.Attributes // those of the policies that the server has
	applied        peering.State     // what the server was brought to: state with the penalties of neighbors
	running, begun bool
	// unapplied holds the problems of the last Apply. failure is the error of the last task.
	unapplied []peering.Problem
	failure   string
	// noExtended holds the neighbors that take no IPv4 routes with IPv6 next hops. It is replaced,
	// and never changed.
	noExtended map[string]bool
	// found holds the addresses of the neighbors on unnumbered links, by interface.
	found map[string]netip.Addr
	// gateways holds the last known default gateways. It is replaced, and never changed.
	gateways gateways
	// ways holds how the last decision that could take effect reached the neighbors. It is
	// replaced, and never changed.
	ways map[netip.Addr]peering.Egress
	// remembered is the last good input. fallback is the good input of an earlier process, for a
	// start without one of our own.
	remembered *intent.Input
	fallback   *intent.Input
}

// acts reports whether a task runs that does more than wait for addresses.
func (g *governing) acts() bool { return g.Busy() && !g.waiting }

// governs returns when govern must run, or zero.
func (s *Speaker) governs() time.Time {
	if s.leaving || !s.known {
		return time.Time{}
	}
	return s.governing.Next()
}

// govern starts to apply the input to the server.
func (s *Speaker) govern(ctx context.Context, now time.Time) {
	s.governing.Begin(now)
	if s.input.Config == nil {
		s.end(ctx)
		return
	}
	s.decide(ctx, s.input, false)
}

// decide starts a task that computes the decision for in. instead says that in replaces an unusable
// input.
func (s *Speaker) decide(ctx context.Context, in intent.Input, instead bool) {
	g := &s.governing
	node, known, ways, linkLocal := in.Node.Node, g.gateways, g.ways, g.found
	node.Own, node.Restricted = slices.Concat(in.Own, s.heldOutside(in.Own)), in.Attributes.Restricted
	node.Draining, node.NoExtendedNextHop = s.drain.asks(), g.noExtended
	s.background.start(ctx, func(ctx context.Context) completion {
		began := time.Now()
		found, errFound := findGateways(ctx, s.Kernel, in.Config.Spec, known)
		node.Gateways = found
		d, ways, err := decided(ctx, s.Kernel, in, node, ways)
		err = errors.Join(errFound, err)
		by, errTaken := findTaken(ctx, s.Kernel, d.State.Peers, linkLocal)
		return func(ctx context.Context, now time.Time) {
			if errTaken == nil {
				s.taken.by = by
			}
			d.Problems = append(d.Problems, s.taken.problems(d.State)...)
			g.gateways = g.gateways.keep(found)
			if instead || d.OK {
				g.ways = ways // a decision that is not in effect may ask for none
			}
			s.Metrics.decided(in.Config, d, now.Sub(began))
			if err != nil {
				s.governed(ctx, now, err)
				return
			}
			if !instead {
				g.news = g.news || !g.decision || !reflect.DeepEqual(g.decided, d)
				g.decided, g.decision = d, true
				s.reporter.resolved(ctx, in.Config, d)
			}
			s.takeDecision(ctx, now, in, d, instead)
		}
	})
}

// decided computes the decision for in on node now. If the kernel cannot be read, it returns an
// error. known are the ways to neighbors of the decision before. A way whose route is gone stays: the
// neighbor cannot hear a withdrawal without it, and the session may outlive the loss. BFD and the
// hold timer find out whether it does.
func decided(
	ctx context.Context, kernel Kernel, in intent.Input, node peering.Node, known map[netip.Addr]peering.Egress,
) (d peering.Decision, ways map[netip.Addr]peering.Egress, err error) {
	var errs []error
	ways = map[netip.Addr]peering.Egress{}
	egress := func(neighbor netip.Addr) (peering.Egress, bool) {
		if e, ok := ways[neighbor]; ok {
			return e, true
		}
		e, ok, err := kernel.Egress(ctx, neighbor, in.Config.Spec.Global.BindToDevice)
		if err != nil {
			errs = append(errs, err)
		}
		if last, was := known[neighbor]; !ok && was {
			e, ok = last, true
			e.Lost = true
		}
		if ok {
			ways[neighbor] = e
		}
		return e, ok
	}
	d = peering.Decide(in.Config.Spec, node, in.Secret, egress)
	return d, ways, errors.Join(errs...)
}

// takeDecision carries out a decision. instead says that it replaces the one for a configuration that
// cannot be used.
func (s *Speaker) takeDecision(ctx context.Context, now time.Time, in intent.Input, d peering.Decision, instead bool) {
	g := &s.governing
	if s.input.Config == nil {
		g.End(now, nil) // it has been deleted meanwhile
		g.Ask(now)
		return
	}
	if last, ok := s.lastGood(); ok && !d.OK && !instead {
		if !g.running {
			s.Log.InfoContext(ctx, "lastGoodConfiguration", "node", s.Node, "generation", last.Config.Generation)
		}
		s.decide(ctx, last, true)
		return
	}
	switch {
	case d.OK:
		s.follow(s.life, d, in.Dummy)
		s.advertise(s.life, d.State)
		s.exports.rule(now, d)
		g.next = application{in, d}
	case g.running:
		g.next = g.effect // the configuration in effect stays in effect
	default:
		s.governed(ctx, now, nil)
		return
	}
	g.waiting = true
	s.applyWhenListed(ctx, now)
}

// lastGood returns the current input with the last configuration that could be used, and false if
// there is none.
func (s *Speaker) lastGood() (in intent.Input, ok bool) {
	last := &s.governing.effect.from
	if last.Config == nil {
		last = s.governing.fallback
	}
	if last == nil || last.Config == nil {
		return intent.Input{}, false
	}
	in = s.input
	in.Config, in.Passwords = last.Config, map[string]string{}
	maps.Copy(in.Passwords, last.Passwords)
	maps.Copy(in.Passwords, s.input.Passwords)
	return in, true
}

// application is a decision to apply, with its input.
type application struct {
	from    intent.Input
	decided peering.Decision
}

// applyWhenListed applies the decision once all addresses to announce are known. Neighbors
// may have kept routes of an earlier process. They then receive all routes again before
// End-of-RIB.
func (s *Speaker) applyWhenListed(ctx context.Context, now time.Time) {
	g := &s.governing
	if !g.waiting || s.leaving || !g.begun && !s.listed() {
		return
	}
	g.waiting = false
	next := g.next
	wanted := s.penalties.applied(s.taken.applied(next.decided.State))
	if !g.needs(wanted) {
		g.staggered, g.effect, g.enforced = time.Time{}, next, next.from.Attributes
		s.rememberInBackground(ctx, next.from)
		s.governed(ctx, now, nil)
		return
	}
	if s.staggered(ctx, now, wanted, next.from.Config.Generation) {
		g.Ask(g.staggered)
		// Actions against neighbors that announce too much must not be delayed.
		next = g.effect
		wanted = s.penalties.applied(s.taken.applied(next.decided.State))
		if reflect.DeepEqual(wanted, g.applied) {
			s.governed(ctx, now, nil)
			return
		}
	}
	restarting := !g.begun && s.imports.total > 0
	known := g.found
	s.background.start(ctx, func(ctx context.Context) completion {
		found := findLinkLocal(ctx, s.Kernel, wanted, known)
		problems, err := s.Server.Apply(ctx, wanted.Resolved(found), restarting)
		problems = slices.Concat(problems, wanted.Alike(found))
		return func(ctx context.Context, now time.Time) {
			g.found, g.news = found, true
			if err == nil {
				g.state, g.effect, g.applied, g.running, g.begun, g.unapplied = next.decided.State, next, wanted, true, true, problems
				s.enforce(ctx, next.from.Attributes, problems)
				s.rememberInBackground(ctx, next.from)
				s.facts.askSoon(now)
			}
			if errors.Is(err, gobgp.ErrStopped) {
				g.state, g.running = peering.State{}, false
			}
			s.setSessions(ctx, now)
			s.governed(ctx, now, err)
		}
	})
}

// enforce records the applied attributes, unless problems say that their policies could not be set.
func (s *Speaker) enforce(ctx context.Context, applied intent.Attributes, problems []peering.Problem) {
	if slices.ContainsFunc(problems, func(p peering.Problem) bool { return p.Policies }) {
		return
	}
	waited := !reflect.DeepEqual(s.governing.enforced.Restricted, applied.Restricted)
	s.governing.enforced = applied
	if waited {
		s.announce(ctx) // some routes waited for their policy
	}
}

// learn records which neighbors take no IPv4 routes with IPv6 next hops.
func (g *governing) learn(now time.Time, there []peering.NeighborStatus) {
	noExtended := map[string]bool{}
	for _, n := range there {
		if n.Opened && !n.ExtendedNextHop || !n.Opened && g.noExtended[n.Name()] {
			noExtended[n.Name()] = true
		}
	}
	if !maps.Equal(noExtended, g.noExtended) {
		g.noExtended = noExtended
		g.Ask(now)
	}
}

// needs reports whether the speaker has to call Apply. With unnumbered links the answer is always
// true, because only the server finds out which neighbor is on them.
func (g *governing) needs(wanted peering.State) bool {
	if !g.running || len(g.unapplied) > 0 || g.failure != "" || !reflect.DeepEqual(wanted, g.applied) {
		return true
	}
	return slices.ContainsFunc(wanted.Peers, func(p peering.Peer) bool { return p.Interface != "" })
}

// governed handles the result of a task.
func (s *Speaker) governed(ctx context.Context, now time.Time, err error) {
	g := &s.governing
	g.ended = now
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
	if err == nil && len(g.unapplied) > 0 {
		g.End(now, errUnapplied)
	} else {
		g.End(now, err)
	}
	s.Metrics.governed(s.input.Config, err)
	if g.news {
		g.news = false
		s.publishSoon(now)
	}
}

// errUnapplied says that a part of the configuration could not be applied.
var errUnapplied = errors.New("a part of the configuration is not in effect")

// problems returns all known problems of the configuration on this node.
func (s *Speaker) problems() []peering.Problem {
	g := &s.governing
	if !g.decision {
		return nil
	}
	return append(g.decided.Problems[:len(g.decided.Problems):len(g.decided.Problems)], g.unapplied...)
}

// end withdraws all routes, because there is no configuration any more.
func (s *Speaker) end(ctx context.Context) {
	g := &s.governing
	was := g.running
	g.staggered = time.Time{}
	s.unfollow(ctx)
	s.advertise(ctx, peering.State{})
	s.exports.rule(time.Now(), peering.Decision{})
	in, began := s.input, time.Now()
	s.background.start(ctx, func(ctx context.Context) completion {
		err := errors.Join(s.Server.Announce(ctx, nil), s.Server.Stop(ctx, false))
		return func(ctx context.Context, now time.Time) {
			g.news = true
			if was {
				s.Metrics.ended(s.reporter.config, now.Sub(began), err)
			}
			if err == nil {
				if was {
					s.Log.InfoContext(ctx, "withdrawn", "node", s.Node, "reason", "there is no BGPConfiguration for this node")
				}
				g.state, g.running, g.unapplied, g.decision, g.waiting = peering.State{}, false, nil, false, false
				g.decided, g.effect = peering.Decision{}, application{}
				g.fallback, g.found, s.facts.neighbors = nil, nil, nil
				s.setSessions(ctx, now) // sets no sessions, and clears met
				s.rememberInBackground(ctx, in)
			}
			s.facts.askSoon(now)
			s.governed(ctx, now, err)
		}
	})
}
