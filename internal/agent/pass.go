package agent

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"purelb.io/purelb/internal/announce"
)

// pass looks at everything, and makes this node as it should be, as far as that
// is possible now.
func (a *Agent) pass(ctx context.Context, now time.Time) (outcome, error) {
	seen, err := a.observe(ctx, now)
	if err != nil {
		return outcome{}, err
	}
	plan := announce.Decide(seen.Situation)
	done := newOutcome(nextRefresh(now, seen.Node, plan.Wanted))
	a.apply(ctx, now, seen, plan, &done)
	a.holdings.hold(now, seen, plan, done)
	a.noteContests(now, plan, &done)
	a.recheck(now, seen, &done)
	a.askUnheard(now, seen, &done)
	questions := a.standingOn(seen)
	a.standing.Store(&questions)
	a.sendClaims(ctx, now, seen, plan, done)
	if seen.sure() {
		a.Annotations.Want(a.reporter.report(seen, plan.Decisions, done))
		a.tellConflicts(now, seen)
		a.pulse.Decide()
	}
	a.shown.Store(&shown{now, seen.toShow(), plan.Decisions, done, a.conflicts.list()})
	done.again(seen.again)
	if due, ok := a.claims.next(); ok {
		done.again(due)
	}
	switch {
	case done.removed || done.awaited(plan):
		done.again(now) // others are to know
	case done.put:
		done.again(now.Add(afterwards))
	}
	if len(done.gone) > 0 {
		done.errands = append(done.errands, a.forgetFlows(done.gone))
	}
	a.spare(len(plan.Decisions), &done)
	return done, errors.Join(done.errs...)
}

// outcome is what became of a pass.
type outcome struct {
	// added are the addresses that are new on this node. Put says that there are
	// some, or would be if they did not vanish every time.
	added map[netip.Addr]announce.Address
	put   bool
	// waiting are those that are to come, and parting those that are to go,
	// and that somebody else has a say in first. Contests are what others
	// answer for.
	waiting, parting map[netip.Addr]announce.Address
	contests         []announce.Contest
	// taken are those that are here and that another holder gives up for us.
	taken []netip.Addr
	// removed says that something was taken off. Gone are those that are nowhere on
	// this node now.
	removed bool
	gone    []netip.Addr
	// failed are those that could not be added, and why.
	failed map[netip.Addr]error
	// errs are all failures.
	errs []error

	// errands are to be run beside the loop.
	errands []errand
	// next is when time alone makes another pass necessary.
	next time.Time
}

func newOutcome(next time.Time) outcome {
	return outcome{
		added:   map[netip.Addr]announce.Address{},
		waiting: map[netip.Addr]announce.Address{}, parting: map[netip.Addr]announce.Address{},
		next: next,
	}
}

func (o *outcome) note(err error) {
	if err != nil {
		o.errs = append(o.errs, err)
	}
}

// unfinished says that ip comes or goes, and that others have a say in when.
func (o *outcome) unfinished(ip netip.Addr) bool {
	_, comes := o.waiting[ip]
	_, goes := o.parting[ip]
	return (comes || goes) && o.failed[ip] == nil
}

// awaited says that something was added that others wait for: of local addresses,
// each has one holder.
func (o *outcome) awaited(plan announce.Plan) bool {
	return slices.ContainsFunc(plan.Decisions, func(d announce.Decision) bool {
		_, added := o.added[d.IP]
		return added && d.Where == announce.Local
	})
}

// again has the next pass be at the given time, or before. Zero is never.
func (o *outcome) again(at time.Time) {
	o.next = sooner(o.next, at)
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
