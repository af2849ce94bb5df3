package agent

import (
	"context"
	"errors"
	"net/netip"
	"runtime/debug"
	"time"

	"purelb.io/purelb/internal/announce"
)

// pass observes, decides, applies and reports. It returns what is left to do.
func (a *Agent) pass(ctx context.Context, now time.Time) (todo, error) {
	seen, err := a.observe(ctx, now)
	if err != nil {
		a.answering.carried = nil
		return todo{}, err
	}
	a.publish(seen)
	a.reporter.reportConfig(seen) // now that the others may know that there are no subnets
	notDropped := a.dropFailed(ctx, seen)
	plan := announce.Decide(seen.Situation)
	done, waits := a.apply(ctx, now, seen, plan)
	done.fail(notDropped)
	a.held.hold(seen, plan, done)
	a.answering.note(now, seen, done)
	a.addresses.fail(done.failed)
	next := together(waits,
		todo{next: nextRefresh(now, seen.Node, plan.Wanted)},
		todo{next: seen.again},
		a.noteConflicts(now, seen, plan, done),
		a.askUnheard(now, seen),
		a.sendGARP(ctx, now, seen, plan, done),
		a.followUp(now, plan, done),
	)
	a.addresses.forget(plan, a.held.read())
	a.askLinks(seen)
	a.report(now, seen, plan, done)
	return next, errors.Join(done.errs...)
}

// report tells people, the other nodes and /state what became of a pass.
func (a *Agent) report(now time.Time, seen *observation, plan announce.Plan, done outcome) {
	if seen.sure() {
		a.Annotations.Want(a.reporter.report(now, seen, plan.Decisions, done))
		a.reportConflicts(now, seen)
		a.pulse.Decide()
	}
	a.shown.Store(&shown{now, seen.toShow(), plan.Decisions, done, showConflicts(a.conflicts)})
}

// followUp returns what done makes necessary.
func (a *Agent) followUp(now time.Time, plan announce.Plan, done outcome) todo {
	var next todo
	switch {
	case done.removed || done.awaited(plan):
		next.next = now // other nodes wait for it
	case done.put:
		next.next = now.Add(afterwards)
	}
	if len(done.gone) > 0 {
		next.tasks = append(next.tasks, a.forgetFlows(done.gone))
	}
	return together(next, a.freeMemory(len(plan.Decisions), done))
}

// todo is what a step leaves to be done.
type todo struct {
	// tasks are to be run in the background.
	tasks []task
	// next is when time alone makes another pass necessary. Zero is never.
	next time.Time
}

// together returns all tasks of several steps, and the earliest of their times.
func together(steps ...todo) todo {
	var all todo
	for _, t := range steps {
		all.tasks = append(all.tasks, t.tasks...)
		all.next = sooner(all.next, t.next)
	}
	return all
}

// nextRefresh returns when the next wanted address is half way through its
// lifetime. Found are the addresses as they were before this pass: what was not
// there, or not for long any more, has its whole lifetime now.
func nextRefresh(now time.Time, node announce.Node, wanted []announce.Address) time.Time {
	left := map[netip.Prefix]time.Duration{}
	for _, f := range node.Addresses {
		if f.Valid != announce.Forever {
			left[f.Prefix] = f.Valid
		}
	}
	wait := fullCheck
	for _, w := range wanted {
		if w.Valid == announce.Forever {
			continue
		}
		remains, found := left[w.Prefix]
		if !found || remains > w.Valid || remains < w.Valid/2 {
			remains = w.Valid
		}
		// The kernel counts in whole seconds; do not come a second too early.
		wait = min(wait, remains-w.Valid/2+time.Second)
	}
	return now.Add(wait)
}

// freeMemory gives memory back to the kernel when many addresses have come or gone and
// nothing more is to be done about it.
func (a *Agent) freeMemory(addresses int, done outcome) todo {
	if len(done.added)+len(done.gone)+len(done.waiting)+len(done.parting) > 0 || !a.burst.Over(addresses) {
		return todo{}
	}
	return todo{tasks: []task{func(context.Context) completion {
		debug.FreeOSMemory()
		return nil
	}}}
}
