package speaker

import (
	"context"
	"reflect"
	"time"

	"purelb.io/purelb/internal/bgp/intent"
	"purelb.io/purelb/internal/bgp/peering"
)

// Run lets the node speak BGP until ctx is done, and then ends the sessions.
func (s *Speaker) Run(ctx context.Context) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	s.life = life
	// end cancels life first, so no task waits for the loop to run its completion.
	defer s.background.wait.Wait()
	defer end()
	kernel, err := s.Kernel.Changes(life)
	if err != nil {
		return err
	}
	s.exports.since = time.Now()
	w := waits{kernel: kernel, start: time.After(patience)}
	s.observe(life, time.Now())
	for ctx.Err() == nil && s.fatal == nil {
		s.pass(life, time.Now())
		s.wait(ctx, &w)
	}
	s.pulse.End()
	if s.fatal != nil {
		return s.fatal
	}
	s.depart(life, &w)
	return nil
}

// waits holds the channels that the loop waits for, beside those in Options.
type waits struct {
	kernel <-chan struct{}
	// start fires when the loop has waited long enough for the API server.
	start <-chan time.Time
}

// work is done at a certain time.
type work struct {
	// due is when it starts, or zero.
	due func() time.Time
	do  func(ctx context.Context, now time.Time)
}

// works returns all work, in the order in which it is done.
func (s *Speaker) works() []work {
	return []work{
		{s.drain.due, func(ctx context.Context, now time.Time) {
			s.drainAsMarked(ctx, now)
			s.publishSoon(now)
		}},
		{s.looking.Next, s.lookForNodes},
		{func() time.Time { return s.weighing.due }, func(ctx context.Context, now time.Time) { s.weigh(ctx, now, s.weighing.endpoints) }},
		{s.governs, s.govern},
		{s.exports.Next, s.export},
		{s.facts.Next, s.read},
		{s.publishes, s.publish},
	}
}

// pass does what is due.
func (s *Speaker) pass(ctx context.Context, now time.Time) {
	s.pulse.Begin(now)
	for _, w := range s.works() {
		if due := w.due(); !due.IsZero() && !now.Before(due) {
			w.do(ctx, now)
		}
	}
}

// next returns the time of the next work.
func (s *Speaker) next(now time.Time) time.Time {
	next := now.Add(fullCheck)
	for _, w := range s.works() {
		if due := w.due(); !due.IsZero() && due.Before(next) {
			next = due
		}
	}
	return next
}

// wait handles one event. It returns without one when work is due.
func (s *Speaker) wait(ctx context.Context, w *waits) {
	// Changes of addresses in the kernel come first: nothing else is urgent.
	select {
	case b := <-s.imports.batches:
		s.takeBatch(b)
		return
	default:
	}
	timer := time.NewTimer(time.Until(s.next(time.Now())))
	defer timer.Stop()
	s.pulse.End()
	select {
	case b := <-s.imports.batches:
		s.turn(func(time.Time) { s.takeBatch(b) })
	case n := <-s.background.completions:
		s.turn(func(now time.Time) { n(s.life, now) })
	case e := <-s.BFD.Events():
		s.turn(func(now time.Time) { s.hear(s.life, now, e) })
	case <-s.Cluster.Changed():
		s.turn(func(now time.Time) { s.observe(s.life, now) })
	case <-s.Server.Events():
		s.turn(func(now time.Time) {
			s.facts.askSoon(now)
			s.exports.askSoon(now)
		})
	case _, open := <-w.kernel:
		if !open {
			w.kernel = nil
		}
		s.turn(func(now time.Time) {
			s.governing.Ask(s.governing.ended.Add(kernelPause))
			s.exports.askNow(now)
		})
	case <-w.start:
		s.turn(func(now time.Time) { s.useStored(s.life, now) })
	case <-ctx.Done():
	case <-timer.C:
	}
}

// turn runs do, and reports begin and end to the pulse.
func (s *Speaker) turn(do func(now time.Time)) {
	now := time.Now()
	s.pulse.Begin(now)
	do(now)
}

// takeBatch handles a batch of an importer.
func (s *Speaker) takeBatch(b batch) {
	s.take(s.life, time.Now(), b)
}

// observe reads the cluster.
func (s *Speaker) observe(ctx context.Context, now time.Time) {
	snapshot, complete := s.Cluster.Read()
	if !complete {
		return // until the next change
	}
	before := s.input
	if !s.known {
		if last, ok := s.recall(ctx); ok {
			before.Passwords = last.Passwords // a Secret may be gone for a moment
			before.Weights = last.Weights     // the endpoints may not be known yet
		}
	}
	in := intent.Read(snapshot, s.Namespace, before, s.ConfigNamespaces...)
	if s.reporter.noteNode(ctx, snapshot.Node == nil) {
		s.publishSoon(now)
	}
	if in.Node.Name == "" {
		return // the configuration may depend on the labels of this Node
	}
	s.seen = true
	s.reporter.complain(ctx, in)
	s.use(ctx, now, in)
	s.weigh(ctx, now, in.Ready)
}

// recall reads the input that an earlier process stored.
func (s *Speaker) recall(ctx context.Context) (intent.Input, bool) {
	in, ok, err := recall(s.Memory, s.Node)
	if err != nil {
		s.Log.WarnContext(ctx, "inputNotRecalled", "node", s.Node, "error", err)
	}
	if !ok {
		return intent.Input{}, false
	}
	if s.governing.good == nil && s.inputWriter.last == nil {
		s.governing.good, s.inputWriter.last = &in, &in
	}
	return in, true
}

// useStored uses the input that an earlier process stored, if the API server has not answered by
// now.
func (s *Speaker) useStored(ctx context.Context, now time.Time) {
	if s.seen {
		return
	}
	in, ok := s.recall(ctx)
	if !ok {
		s.Log.InfoContext(ctx, "waitingForAPIServer", "node", s.Node)
		return
	}
	s.Log.InfoContext(ctx, "lastInput", "node", s.Node, "reason", "the API server is not heard")
	s.use(ctx, now, in)
}

// use sets the current input to in, and starts to apply it.
func (s *Speaker) use(ctx context.Context, now time.Time, in intent.Input) {
	if s.known && s.input.Same(in) {
		return
	}
	s.imports.stale = s.imports.stale || !reflect.DeepEqual(s.input.Attributes, in.Attributes)
	s.input, s.known, s.owned = in, true, peering.CoverageOf(in.Own)
	s.drainAsMarked(ctx, now)
	s.governing.news = true
	s.governing.Retry.Reset()
	s.governing.Ask(now)
}
