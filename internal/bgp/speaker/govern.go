package speaker

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"time"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/bgp/gobgp"
	"purelb.io/purelb/internal/bgp/intent"
	"purelb.io/purelb/internal/bgp/peering"
)

// governing brings the server to the input. One task at a time does that: it reads the paths to the
// neighbors, decides, and applies. See govern.
type governing struct {
	backoff.Schedule
	// ended is when the last task ended. news says that the task changed something to report.
	ended time.Time
	news  bool
	// applying says that the task is applying. Routes do not change meanwhile by other means.
	applying bool

	progress
	paths
	// noExtended holds the neighbors that take no IPv4 routes with IPv6 next hops. It is replaced,
	// and never changed.
	noExtended map[string]bool
}

// progress is what was decided, and what the server has.
type progress struct {
	// decision is the last one about the current input, if there is one.
	decision peering.Decision
	// running says that the server runs, and applied is what it has. begun says that this process has had a
	// server.
	running, begun bool
	applied        applied
	// good is the last input that could be used. It may be from the file of an earlier process.
	good *intent.Input
	// staggered is when the speaker applies a change that ends sessions. It is zero while there
	// is no such change.
	staggered time.Time
	// failure is the error of the last task.
	failure string
}

// applied is what the server was brought to.
type applied struct {
	decided
	// sent is the State of the decision with the penalties of neighbors, without routes.
	sent peering.State
	// problems are the parts that could not be applied.
	problems []peering.Problem
}

// decided is a decision and its input.
type decided struct {
	input intent.Input
	peering.Decision
}

// paths holds how the node reached the neighbors when it last did. Its maps are replaced, and never
// changed.
type paths struct {
	// linkLocal has the addresses of the neighbors on unnumbered links, by interface.
	linkLocal map[string]netip.Addr
	// gateways and ways are those that the last decision that could take effect asked for.
	gateways map[addr.Family]peering.Gateway
	ways     map[netip.Addr]peering.Egress
}

// problems returns all known problems of the configuration on this node.
func (p *progress) problems() []peering.Problem {
	return slices.Concat(p.decision.Problems, p.applied.problems)
}

// peers returns the wanted neighbors.
func (p *progress) peers() []peering.Peer {
	if p.decision.OK {
		return p.decision.State.Peers
	}
	return p.applied.State.Peers
}

// governs returns when govern must run, or zero.
func (s *Speaker) governs() time.Time {
	if s.leaving || !s.known {
		return time.Time{}
	}
	return s.governing.Next()
}

// govern starts to bring the server to the input.
func (s *Speaker) govern(ctx context.Context, now time.Time) {
	s.governing.Begin(now)
	if s.input.Config == nil {
		s.end(ctx)
		return
	}
	t := s.newTask()
	s.background.start(ctx, func(ctx context.Context) completion {
		t.decide(ctx)
		if !s.background.onLoop(ctx, func(ctx context.Context, now time.Time) { s.prepare(ctx, now, t) }) {
			t.err = errors.Join(t.err, ctx.Err())
		}
		if t.applies {
			t.apply(ctx)
		}
		return func(ctx context.Context, now time.Time) { s.finish(ctx, now, t) }
	})
}

// task is one run of govern.
type task struct {
	server Server
	kernel Kernel
	// input is the current one. good replaces it if it cannot be used, unless it is nil.
	input intent.Input
	good  *intent.Input
	node  peering.Node
	known paths

	// decision is about input. next is in effect after the task: it is decision, or the one about good.
	decision peering.Decision
	next     decided
	found    paths
	// taken are the neighbors with a session of another program. It is nil if that is not known.
	taken map[string]netip.AddrPort
	took  time.Duration

	// wanted is what to apply, if applies is set. waits says that the addresses are not listed yet.
	wanted         peering.State
	applies, waits bool
	restarting     bool
	problems       []peering.Problem
	// err is why the task failed, and refused is the part of it that Apply returned.
	err, refused error
}

// newTask gathers what a decision depends on.
func (s *Speaker) newTask() *task {
	g := &s.governing
	t := &task{server: s.Server, kernel: s.Kernel, input: s.input, good: s.lastGood(), node: s.input.Node.Node, known: g.paths}
	t.node.Own, t.node.Restricted = s.input.Own, s.input.Attributes.Restricted
	if s.learns() {
		t.node.Own = slices.Concat(t.node.Own, s.heldOutside(s.input.Own))
	}
	t.node.Draining, t.node.NoExtendedNextHop = s.drain.asks(), g.noExtended
	return t
}

// lastGood returns the current input with the last configuration that could be used, or nil if there
// is none.
func (s *Speaker) lastGood() *intent.Input {
	last := s.governing.good
	if last == nil || last.Config == nil {
		return nil
	}
	in := s.input
	in.Config, in.Passwords = last.Config, map[string]string{}
	maps.Copy(in.Passwords, last.Passwords)
	maps.Copy(in.Passwords, s.input.Passwords)
	return &in
}

// decide computes the decision about the input, or about the last good one.
func (t *task) decide(ctx context.Context) {
	began := time.Now()
	t.next = t.decideFor(ctx, t.input)
	t.decision, t.took = t.next.Decision, time.Since(began)
	if !t.decision.OK && t.good != nil && t.err == nil {
		t.next = t.decideFor(ctx, *t.good)
	}
	if !t.next.OK {
		return // the neighbors in effect stay as they are
	}
	t.found.linkLocal = findLinkLocal(ctx, t.kernel, t.next.State, t.known.linkLocal)
	resolved, _ := t.next.State.Resolved(t.found.linkLocal)
	if by, err := findTaken(ctx, t.kernel, resolved.Peers); err == nil {
		t.taken = by
	}
}

// decideFor computes the decision for in on the node now. A way to a neighbor whose route is gone stays:
// the neighbor cannot hear a withdrawal without it, and the session may outlive the loss. BFD and the
// hold timer find out whether it does.
func (t *task) decideFor(ctx context.Context, in intent.Input) decided {
	found, err := findGateways(ctx, t.kernel, in.Config.Spec, t.known.gateways)
	t.err = errors.Join(t.err, err)
	ways := map[netip.Addr]peering.Egress{}
	egress := func(neighbor netip.Addr) (peering.Egress, bool) {
		if e, ok := ways[neighbor]; ok {
			return e, true
		}
		e, ok, err := t.kernel.Egress(ctx, neighbor, in.Config.Spec.Global.BindToDevice)
		t.err = errors.Join(t.err, err)
		if last, was := t.known.ways[neighbor]; !ok && was {
			e, ok = last, true
			e.Lost = true
		}
		if ok {
			ways[neighbor] = e
		}
		return e, ok
	}
	node := t.node
	node.Gateways = found
	d := peering.Decide(in.Config.Spec, node, in.Secret, egress)
	t.found.ways, t.found.gateways = ways, found
	return decided{in, d}
}

// prepare takes in the decision of t, and says what to apply: nothing before all addresses to announce
// are known, because neighbors may have kept routes of an earlier process. They then receive all routes
// again before End-of-RIB.
func (s *Speaker) prepare(ctx context.Context, now time.Time, t *task) {
	g := &s.governing
	if s.input.Config == nil {
		return // it has been deleted meanwhile
	}
	if t.taken != nil {
		s.taken.by = t.taken
	}
	if t.next.OK { // a decision that is not in effect may ask for none
		g.paths = t.found
	}
	s.Metrics.decided(t.input.Config, t.decision, t.took)
	if t.err != nil {
		if g.running && s.imports.stale && !s.leaving { // routes do not wait until the kernel answers
			t.next = g.applied.decided
			s.plan(ctx, now, t)
		}
		return
	}
	t.decision.Problems = append(t.decision.Problems, s.taken.problems(t.next.State)...)
	g.news = g.news || !reflect.DeepEqual(g.decision, t.decision)
	g.decision = t.decision
	s.reporter.resolved(ctx, t.input.Config, t.decision)
	switch {
	case t.next.OK:
		if !t.decision.OK && !g.running {
			s.Log.InfoContext(ctx, "lastGoodConfiguration", "node", s.Node, "generation", t.next.input.Config.Generation)
		}
		s.follow(s.life, t.next.Decision, t.next.input.Dummy)
		s.advertise(s.life, t.next.State)
		s.exports.rule(now, t.next.Decision)
	case g.running:
		t.next = g.applied.decided // the configuration in effect stays in effect
	default:
		return
	}
	if t.waits = !g.begun && !s.listed(); t.waits || s.leaving {
		return
	}
	s.plan(ctx, now, t)
}

// plan says what to apply of a decision. A change that ends sessions may have to wait.
func (s *Speaker) plan(ctx context.Context, now time.Time, t *task) {
	g := &s.governing
	t.wanted = s.penalties.applied(s.taken.applied(t.next.State))
	if s.staggered(ctx, now, t.wanted, t.next.input.Config.Generation) {
		g.Ask(g.staggered)
		// Actions against neighbors that announce too much must not be delayed, and neither must routes.
		t.next = g.applied.decided
		t.wanted = s.penalties.applied(s.taken.applied(t.next.State))
	}
	t.wanted, t.problems = t.wanted.Resolved(g.linkLocal)
	if t.applies = g.needs(t.wanted) || len(t.problems) > 0 || s.imports.stale; !t.applies {
		g.applied.decided = t.next
		return
	}
	g.applying, t.restarting = true, !g.begun && s.imports.total > 0
	if s.imports.stale || !g.running {
		t.wanted.Routes, t.wanted.Waiting = s.routes(t.next.input.Attributes, s.imported())
		s.imports.stale = len(t.wanted.Waiting) > 0
	}
}

// needs reports whether the speaker has to call Apply for a State, regardless of its routes.
func (p *progress) needs(wanted peering.State) bool {
	return !p.running || len(p.applied.problems) > 0 || p.failure != "" || !reflect.DeepEqual(wanted, p.applied.sent)
}

// apply brings the server to the wanted state.
func (t *task) apply(ctx context.Context) {
	problems, err := t.server.Apply(ctx, t.wanted, t.restarting)
	t.problems, t.refused, t.err = slices.Concat(t.problems, problems), err, errors.Join(t.err, err)
}

// finish takes in the result of t.
func (s *Speaker) finish(ctx context.Context, now time.Time, t *task) {
	g := &s.governing
	if t.applies {
		s.takeApplied(ctx, now, t)
	}
	if errors.Is(t.refused, gobgp.ErrRestart) {
		s.Log.InfoContext(ctx, "restarting", "node", s.Node, "reason", t.refused)
		s.Restart()
		t.err = nil // it is no failure
	}
	if s.input.Config == nil || t.waits {
		g.End(now, nil)
		if !t.waits {
			g.Ask(now) // the configuration has been deleted meanwhile
		}
		return
	}
	if t.err == nil && g.running {
		good := g.applied.input
		g.good = &good
		s.rememberInBackground(ctx, good)
	}
	s.governed(ctx, now, t.err)
}

// takeApplied takes in the result of an Apply.
func (s *Speaker) takeApplied(ctx context.Context, now time.Time, t *task) {
	g := &s.governing
	g.applying, g.news = false, true
	if t.refused != nil {
		s.imports.stale = true
	} else {
		t.wanted.Routes, t.wanted.Waiting = nil, nil
		g.applied, g.running, g.begun = applied{t.next, t.wanted, t.problems}, true, true
		s.facts.askSoon(now)
		s.announced(ctx, now, !slices.ContainsFunc(t.problems, func(p peering.Problem) bool { return p.Routes }), nil)
	}
	pending := s.imports.pending
	s.imports.pending = map[netip.Prefix]bool{}
	s.change(ctx, now, pending)
	s.setSessions(ctx, now)
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
	s.reporter.problems(ctx, s.input.Config, g.problems())
	if err == nil && len(g.applied.problems) > 0 {
		g.End(now, errUnapplied)
	} else {
		g.End(now, err)
	}
	s.lookForOthers(now)
	s.Metrics.governed(s.input.Config, err)
	if g.news {
		g.news = false
		s.publishSoon(now)
	}
}

// errUnapplied says that a part of the configuration could not be applied.
var errUnapplied = errors.New("a part of the configuration is not in effect")

// end withdraws all routes, because there is no configuration any more.
func (s *Speaker) end(ctx context.Context) {
	g := &s.governing
	was := g.running
	g.staggered = time.Time{}
	s.unfollow()
	s.advertise(ctx, peering.State{})
	s.exports.rule(time.Now(), peering.Decision{})
	in, began := s.input, time.Now()
	s.background.start(ctx, func(ctx context.Context) completion {
		err := s.Server.Stop(ctx, false)
		return func(ctx context.Context, now time.Time) {
			g.news = true
			if was {
				s.Metrics.ended(s.reporter.config, now.Sub(began), err)
			}
			if err == nil {
				if was {
					s.Log.InfoContext(ctx, "withdrawn", "node", s.Node, "reason", "there is no BGPConfiguration for this node")
				}
				g.progress, g.linkLocal, s.facts.neighbors = progress{begun: g.begun, failure: g.failure}, nil, nil
				s.setSessions(ctx, now) // sets no sessions, and clears met
				s.rememberInBackground(ctx, in)
			}
			s.facts.askSoon(now)
			s.governed(ctx, now, err)
		}
	})
}
