package speaker

import (
	"context"
	"reflect"
	"time"
)

// Run has the node speak BGP until ctx is done, and then says goodbye.
func (s *Speaker) Run(ctx context.Context) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	s.life = life
	// Who waits for the loop to take something in does so no more.
	defer s.beside.wait.Wait()
	defer end()
	kernel, err := s.Kernel.Changes(life)
	if err != nil {
		return err
	}
	s.exports.learn(time.Now(), s.Server.Ended())
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

// waits are what the loop waits for beside what Options have.
type waits struct {
	kernel <-chan struct{}
	// start says that the API server has been waited for long enough.
	start <-chan time.Time
}

// pass does what is due.
func (s *Speaker) pass(ctx context.Context, now time.Time) {
	s.pulse.Begin(now)
	if due := s.drain.due(); !due.IsZero() && !now.Before(due) {
		s.drainAsMarked(ctx, now)
		s.publish(now)
	}
	if due := s.imports.due; !due.IsZero() && !now.Before(due) {
		s.imports.due = time.Time{}
		s.announce(ctx)
	}
	s.govern(ctx, now)
	s.export(now)
	s.look(now)
}

// next is when something is due.
func (s *Speaker) next(now time.Time) time.Time {
	next := now.Add(fullCheck)
	consider := func(due time.Time) {
		if !due.IsZero() && due.Before(next) {
			next = due
		}
	}
	consider(s.drain.due())
	consider(s.imports.due)
	if !s.governing.busy && !s.leaving && s.known {
		consider(s.governing.due)
	}
	if !s.exports.busy {
		consider(s.exports.due)
	}
	if !s.facts.busy {
		consider(s.facts.due)
	}
	return next
}

// wait returns when there is something to do, having taken in what has come.
func (s *Speaker) wait(ctx context.Context, w *waits) {
	// What the kernel says comes first: nothing else is in a hurry.
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
	case n := <-s.beside.notes:
		s.turn(func(now time.Time) { n(s.life, now) })
	case e := <-s.BFD.Events():
		s.turn(func(now time.Time) { s.hear(s.life, now, e) })
	case <-s.Cluster.Changed():
		s.turn(func(now time.Time) { s.observe(s.life, now) })
	case <-s.Server.Events():
		s.turn(func(now time.Time) {
			s.learnAnew(now)
			s.facts.wish(now)
			s.exports.wish(now)
		})
	case _, open := <-w.kernel:
		if !open {
			w.kernel = nil
		}
		s.turn(func(now time.Time) {
			s.governing.later(latest(now, s.governing.ended.Add(kernelPause)))
			s.exports.wish(now)
		})
	case <-w.start:
		s.turn(func(now time.Time) { s.begin(s.life, now) })
	case <-ctx.Done():
	case <-timer.C:
	}
}

// turn does something, with the pulse taken.
func (s *Speaker) turn(do func(now time.Time)) {
	now := time.Now()
	s.pulse.Begin(now)
	do(now)
}

// takeBatch takes in what an importer has seen, and goes on with what has waited
// for it.
func (s *Speaker) takeBatch(b batch) {
	now := time.Now()
	s.take(s.life, now, b)
	s.applyWhenListed(s.life, now)
}

// observe reads the cluster.
func (s *Speaker) observe(ctx context.Context, now time.Time) {
	snapshot, complete := s.Cluster.Read()
	if !complete {
		return
	}
	in := read(snapshot, s.Namespace, s.input, s.ConfigNamespaces...)
	s.reporter.ignoring(ctx, snapshot.Configs)
	s.reporter.complain(ctx, in.Complaints)
	if s.reporter.nodeIs(ctx, snapshot.Node == nil) {
		s.publish(now)
	}
	if in.Node.Name == "" {
		return // without its labels nobody knows what the configuration means here
	}
	if !s.seen {
		s.recall(ctx)
	}
	s.seen = true
	s.use(ctx, now, in)
	s.told.tell(s.Events, s.Node, s.input)
}

// recall reads what an earlier process remembered.
func (s *Speaker) recall(ctx context.Context) (Input, bool) {
	in, ok, err := recall(s.Memory, s.Node)
	if err != nil {
		s.Log.WarnContext(ctx, "inputNotRecalled", "node", s.Node, "error", err)
	}
	if !ok {
		return Input{}, false
	}
	g := &s.governing
	if g.fallback == nil && g.remembered == nil {
		g.fallback, g.remembered = &in, &in
	}
	return in, true
}

// begin begins with what an earlier process remembered, if the API server has not
// been heard by now.
func (s *Speaker) begin(ctx context.Context, now time.Time) {
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

// use goes by in from now on.
func (s *Speaker) use(ctx context.Context, now time.Time, in Input) {
	if s.known && s.input.same(in) {
		return
	}
	attributes := !reflect.DeepEqual(s.input.Attributes, in.Attributes)
	s.input, s.known = in, true
	s.drainAsMarked(ctx, now)
	if attributes {
		s.announce(ctx)
	}
	s.governing.retry, s.governing.news = retryMin, true
	s.governing.due = now
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
