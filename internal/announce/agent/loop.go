package agent

import (
	"context"
	"errors"
	"net/netip"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/nodes/ending"
	"purelb.io/purelb/internal/process"
)

// pass observes, decides, applies and reports. It returns what is left to do.
func (a *Agent) pass(ctx context.Context, now time.Time) (todo, error) {
	seen, err := a.observe(ctx, now)
	if err != nil {
		return todo{}, err
	}
	a.publish(seen)
	a.reporter.reportConfig(seen) // now the other nodes may know that there are no subnets
	a.closePorts(ctx, seen)
	notDropped := a.dropFailed(ctx, seen)
	plan := announce.Decide(seen.Situation)
	done := a.apply(ctx, seen, plan)
	done.Fail(notDropped)
	a.held.hold(announce.Holds(seen.Situation, plan, done.Added, done.Failed))
	a.sendGARP(ctx, now, seen, plan, done)
	next := together(
		todo{tasks: a.tasks(seen, done), next: done.Next},
		todo{next: announce.NextRefresh(now, seen.Node, plan.Wanted, fullCheck)},
		todo{tasks: seen.tasks, next: seen.again},
		a.noteConflicts(now, seen, plan, done),
		a.askListener(plan, done),
		a.followUp(now, plan, done),
		todo{next: a.returns.Observe(now, plan)},
	)
	a.addresses.Forget(now, plan, a.held.read())
	a.askLinks(seen)
	a.report(now, seen, plan, done)
	return next, errors.Join(done.Errs...)
}

// report reports the result of a pass by events, to the other nodes and to /state.
func (a *Agent) report(now time.Time, seen *observation, plan announce.Plan, done *announce.Outcome) {
	if seen.sure() {
		a.Annotations.Want(a.reporter.report(now, seen, plan.Decisions, done))
		a.reportConflicts(now, seen)
		a.reportNotHeard(seen)
		a.pulse.Decide()
	}
	a.prober.see(seen)
	a.shown.Store(&shown{now, seen.toShow(), plan.Decisions, done, showConflicts(a.conflicts)})
}

// followUp returns the work that done makes necessary.
func (a *Agent) followUp(now time.Time, plan announce.Plan, done *announce.Outcome) todo {
	var next todo
	switch {
	case done.Removed || slices.ContainsFunc(plan.Decisions, func(d announce.Decision) bool {
		_, added := done.Added[d.IP]
		return added && d.Where == announce.Local // a local address has one holder
	}):
		next.next = now // other nodes wait for the next pass
	case done.Put > 0:
		next.next = now.Add(afterwards)
	}
	return together(next, a.freeMemory(len(plan.Decisions), done))
}

// todo is the work that a step leaves.
type todo struct {
	// tasks run in the background.
	tasks []task
	// next is when another pass is needed without an event. Zero means: never.
	next time.Time
}

// together joins the tasks of several steps, and returns the earliest of their times.
func together(steps ...todo) todo {
	var all todo
	for _, t := range steps {
		all.tasks = append(all.tasks, t.tasks...)
		all.next = announce.Sooner(all.next, t.next)
	}
	return all
}

// freeMemory returns memory to the kernel after many addresses have come or gone. While a node has
// many addresses, most of the memory stays in use, so garbage is collected sooner.
func (a *Agent) freeMemory(addresses int, done *announce.Outcome) todo {
	if len(done.Added)+len(done.Gone)+len(done.Waiting)+len(done.Parting) > 0 || !a.burst.Over(addresses) {
		return todo{}
	}
	collect := process.CollectUsually
	if a.burst.Many() {
		collect = process.CollectSooner
	}
	return todo{tasks: []task{func(context.Context) completion {
		collect()
		debug.FreeOSMemory()
		return nil
	}}}
}

// Run keeps the node's addresses until ctx is done. If no other agent follows on this node, Run
// then hands the addresses over and leaves the other agents.
func (a *Agent) Run(ctx context.Context) error {
	kernel, err := a.Kernel.Changes(ctx)
	if err != nil {
		return err
	}
	heard, err := a.Kernel.Listen(ctx, a.held.read)
	if err != nil {
		return err
	}
	a.background.wait.Go(func() { a.watchLinks(ctx) })
	a.background.wait.Go(func() { a.paceClaims(ctx) })
	a.watchKubeProxy(ctx)
	a.keep(ctx, kernel, heard)
	a.background.wait.Wait()
	a.depart(context.WithoutCancel(ctx))
	return nil
}

// keep makes one pass after another until ctx is done.
func (a *Agent) keep(ctx context.Context, kernel <-chan struct{}, heard <-chan announce.Heard) {
	var failing string
	retry := backoff.Pauses{Min: retryMin, Max: retryMax}
	for ctx.Err() == nil {
		began := time.Now()
		a.drain(ctx)
		left, err := a.guardedPass(ctx, began)
		if err == nil {
			retry.Reset()
		} else {
			left.next = announce.Sooner(left.next, time.Now().Add(retry.Next()))
			a.Metrics.passErrors.Inc()
		}
		failing = a.logFailure(ctx, err, failing)
		a.planned = left.next
		a.background.start(ctx, left.tasks)
		backoff.Sleep(ctx, min(time.Since(began), maxPause))
		a.wait(ctx, kernel, heard, time.Until(left.next))
	}
}

// wait returns when there is work.
func (a *Agent) wait(ctx context.Context, kernel <-chan struct{}, heard <-chan announce.Heard, limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case h, open := <-heard:
			if !open {
				heard = nil // Listen ends with ctx
			}
			if !open || !a.hear(ctx, h) {
				continue
			}
		case done := <-a.background.completions:
			done()
		case m := <-a.Peers.Received():
			a.handleMessage(ctx, m)
		case <-ctx.Done():
		case <-kernel:
		case <-a.Cluster.Changed():
		case <-a.Peers.Changed():
		case <-timer.C:
		}
		return
	}
}

// drain handles the events that have come already, drainMost at most, so that a flood of events
// does not delay a pass.
func (a *Agent) drain(ctx context.Context) {
	for range drainMost {
		select {
		case done := <-a.background.completions:
			done()
		case m := <-a.Peers.Received():
			a.handleMessage(ctx, m)
		default:
			return
		}
	}
}

// drainMost limits the events between two passes. Usually fewer events wait.
const drainMost = 1024

// guardedPass runs pass within its time limit, and reports begin and end to the pulse.
func (a *Agent) guardedPass(ctx context.Context, now time.Time) (todo, error) {
	a.pulse.Begin(now)
	defer a.pulse.End()
	ctx, cancel := context.WithTimeout(ctx, passLimit)
	defer cancel()
	return a.pass(ctx, now)
}

// logFailure logs err unless it is the same as the last one.
func (a *Agent) logFailure(ctx context.Context, err error, last string) string {
	switch {
	case ctx.Err() != nil: // an end of ctx explains every failure
	case err == nil && last != "":
		a.Log.InfoContext(ctx, "recovered", "node", a.Node)
	case err != nil && err.Error() != last:
		a.Log.WarnContext(ctx, "passFailed", "node", a.Node, "error", err)
	}
	if err == nil {
		return ""
	}
	return err.Error()
}

// A task is slow, so it runs in the background. It returns its completion, or nil if the loop
// has nothing to do afterwards.
type task func(ctx context.Context) completion

// The loop runs a completion, because a completion changes the state of the loop.
type completion func()

// background holds the running tasks.
type background struct {
	wait        sync.WaitGroup
	completions chan completion
}

// start starts tasks. They end early when ctx is done.
func (b *background) start(ctx context.Context, tasks []task) {
	for _, run := range tasks {
		b.wait.Go(func() {
			if done := run(ctx); done != nil {
				b.complete(ctx, done)
			}
		})
	}
}

// complete gives done to the loop.
func (b *background) complete(ctx context.Context, done completion) {
	select {
	case b.completions <- done:
	case <-ctx.Done():
	}
}

// Departures tells why this process ends.
type Departures interface {
	Ending(ctx context.Context) ending.Ending
}

// leaveText is the reason that other nodes see while the agent leaves.
const leaveText = "the agent is leaving"

// partLimit is the longest that the agent waits for other nodes to take its addresses, 1.2 s
// as a rule. It is longer than the wait for one node.
func (a *Agent) partLimit() time.Duration { return a.Handover * 6 / 5 }

// leaveLimit is how long the agent may take to say goodbye afterwards, and then to delete the links
// that it created: 0.5 s each as a rule.
func (a *Agent) leaveLimit() time.Duration { return a.Handover / 2 }

// depart keeps the addresses, hands them over or withdraws them, as the cause of the end demands.
func (a *Agent) depart(ctx context.Context) {
	if a.Departures == nil {
		return
	}
	why := a.Departures.Ending(ctx)
	addresses := why.Cause.Addresses()
	a.Log.InfoContext(ctx, "departing", "node", a.Node, "cause", why.Cause.String(), "reason", why.Reason, "addressesStay", addresses == ending.Stay)
	if addresses == ending.Stay {
		a.completeHandovers(ctx)
		return
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, a.partLimit())
	defer cancel()
	a.leaving = leaveText
	// Handovers start with a fresh limit. If the next pod is about to come, an address that no
	// node takes stays: the other agents may be ending too.
	a.addresses.Depart(addresses == ending.Offer)
	err := a.handOver(ctx)

	// Each step has its own limit: if one takes too long, the next ones still succeed.
	ctx = context.WithoutCancel(ctx)
	// Withdraw the addresses that no node was asked to take last: the other nodes replace them
	// only after the goodbye. The goodbye does not wait for the deletion of the links.
	err = errors.Join(err, a.sayGoodbye(ctx, addresses))
	if addresses == ending.Withdraw {
		err = errors.Join(err, a.removeTraces(ctx))
	}
	a.logDeparted(ctx, began, err)
}

func (a *Agent) logDeparted(ctx context.Context, began time.Time, err error) {
	if err != nil {
		a.Log.WarnContext(ctx, "departed", "node", a.Node, "duration", time.Since(began), "error", err)
		return
	}
	a.Log.InfoContext(ctx, "departed", "node", a.Node, "duration", time.Since(began))
}

// completeHandovers waits for the nodes that were asked to take addresses, and removes what they have
// taken. Otherwise both nodes would have these addresses until the next agent starts here.
func (a *Agent) completeHandovers(ctx context.Context) {
	if !a.addresses.HandingOver() {
		return
	}
	began := time.Now()
	waiting, cancel := context.WithTimeout(ctx, a.partLimit())
	defer cancel()
	a.addresses.OnlyTaken = true
	a.logDeparted(ctx, began, a.handOver(waiting))
}

// sayGoodbye removes the addresses that must not stay, and leaves the other agents.
func (a *Agent) sayGoodbye(ctx context.Context, addresses ending.Addresses) error {
	ctx, end := context.WithTimeout(ctx, a.leaveLimit())
	defer end()
	return errors.Join(a.withdraw(ctx, addresses), a.Peers.Leave(ctx))
}

// removeTraces removes what is left after the last address.
func (a *Agent) removeTraces(ctx context.Context) error {
	ctx, end := context.WithTimeout(ctx, a.leaveLimit())
	defer end()
	return errors.Join(a.Kernel.Guard(ctx, nil), a.Kernel.RemoveDummies(ctx))
}

// handoverRetry is the pause after a handoverPass that failed, as an interrupted dump does.
const handoverRetry = 50 * time.Millisecond

// handOver asks other nodes to take the addresses that they can have, and removes what they have taken.
// An address whose handover fails does not delay the others.
func (a *Agent) handOver(ctx context.Context) error {
	tasks, stop := context.WithCancel(ctx)
	defer a.background.wait.Wait()
	defer stop()
	var err error
	for ctx.Err() == nil {
		now := time.Now()
		a.drain(ctx)
		var done *announce.Outcome
		done, err = a.handoverPass(ctx, now)
		a.background.start(tasks, a.offers(done))
		switch {
		case len(done.Parting) > 0:
		case err == nil:
			return nil
		default:
			done.Next = time.Now().Add(handoverRetry)
		}
		a.wait(tasks, nil, nil, time.Until(done.Next))
	}
	return errors.Join(err, ctx.Err())
}

// handoverPass is a pass that only hands over.
func (a *Agent) handoverPass(ctx context.Context, now time.Time) (*announce.Outcome, error) {
	done := announce.NewOutcome()
	seen, err := a.observe(ctx, now)
	if err != nil {
		return done, err
	}
	a.publish(seen)
	plan := announce.Decide(seen.Situation)
	successors := map[netip.Addr]bool{}
	for _, d := range plan.Decisions {
		successors[d.IP] = d.HandTo != ""
	}
	leaving := slices.DeleteFunc(announce.Diff(plan.Wanted, seen.Node, seen.adopt).Remove, func(w announce.Address) bool {
		return !successors[w.Prefix.Addr()]
	})
	a.addresses.Leave(time.Now(), plan, leaving, done)
	return done, a.remove(ctx, done, nil)
}

// withdraw removes the addresses that must not stay.
func (a *Agent) withdraw(ctx context.Context, addresses ending.Addresses) error {
	if addresses == ending.Offer {
		return nil
	}
	seen, err := a.observe(ctx, time.Now())
	if err != nil {
		return err
	}
	a.publish(seen)
	var wanted []announce.Address
	if addresses != ending.Withdraw || !seen.Complete && !seen.Node.MarksSupported {
		// Without marks, an address that looks like ours may belong to the node.
		wanted = announce.Decide(seen.Situation).Wanted
	}
	return a.remove(ctx, &announce.Outcome{Remove: announce.Diff(wanted, seen.Node, seen.adopt).Remove}, wanted)
}
