package agent

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"time"

	"purelb.io/purelb/internal/announce"
)

// pass looks at everything, makes this node as it should be, and returns when
// time alone makes another pass necessary.
func (a *Agent) pass(ctx context.Context, now time.Time) (next time.Time, err error) {
	seen, err := a.observe(ctx)
	if err != nil {
		return time.Time{}, err
	}
	plan := announce.Decide(seen.Situation)
	changes := announce.Diff(plan.Wanted, seen.Node, seen.adopt)
	done := a.apply(ctx, now, seen, plan.Wanted, changes)
	a.sendClaims(ctx, now, seen, plan, done)
	if seen.sure() {
		a.Annotations.Want(a.reporter.report(seen, plan.Decisions, done))
		a.pulse.decided()
	}
	return a.nextPass(now, seen.Node, plan.Wanted), errors.Join(done.errs...)
}

// outcome is what became of changes.
type outcome struct {
	// added are the addresses that are new on this node.
	added map[netip.Addr]announce.Address
	// failed are those that could not be added, and why.
	failed map[netip.Addr]error
	// errs are all failures.
	errs []error
}

// apply carries out changes: what is added comes before what is removed, and an
// address that cannot be added in one place stays in the other.
func (a *Agent) apply(ctx context.Context, now time.Time, seen *observation, wanted []announce.Address, c announce.Changes) outcome {
	done := outcome{added: map[netip.Addr]announce.Address{}}
	done.note(a.ensureDummy(ctx, seen))

	err := a.add(ctx, now, wanted, c.Add, &done)
	remove := c.Removable(err)

	err = a.Kernel.Put(ctx, c.Refresh)
	bad := len(failures(c.Refresh, err))
	done.note(err)
	a.Metrics.renewals.Add(float64(len(c.Refresh) - bad))
	a.Metrics.renewalErrors.Add(float64(bad))

	err = a.Kernel.Remove(ctx, remove)
	done.note(err)
	a.Metrics.withdrawals.Add(float64(len(remove) - len(failures(remove, err))))
	return done
}

// add adds what is missing of wanted, notes what became of it, and returns an
// announce.AddressError for each that is not there, or not there to stay.
func (a *Agent) add(ctx context.Context, now time.Time, wanted, missing []announce.Address, done *outcome) error {
	add := a.losses.sift(now, wanted, missing)
	err := a.Kernel.Put(ctx, add)
	done.note(err)
	failed := failures(add, err)
	lost := a.losses.failures(wanted)
	done.note(errors.Join(lost...))
	for _, w := range add {
		if e := failed[w.Prefix.Addr()]; e != nil {
			lost = append(lost, &announce.AddressError{Address: w, Err: e})
			continue
		}
		a.losses.added(now, w)
		done.added[w.Prefix.Addr()] = w
		a.Metrics.additions.Inc()
	}
	err = errors.Join(lost...)
	done.failed = failures(nil, err)
	maps.DeleteFunc(done.added, func(ip netip.Addr, _ announce.Address) bool { return done.failed[ip] != nil })
	return err
}

// ensureDummy makes sure of the link for remote addresses once it is certain
// which one that is.
func (a *Agent) ensureDummy(ctx context.Context, seen *observation) error {
	if seen.Agent == nil || !seen.sure() {
		return nil
	}
	if slices.ContainsFunc(seen.Node.Links, func(l announce.Link) bool { return l.Name == seen.Agent.Dummy && l.Up }) {
		return nil
	}
	_, err := a.Kernel.EnsureDummy(ctx, seen.Agent.Dummy)
	return err
}

func (o *outcome) note(err error) {
	if err != nil {
		o.errs = append(o.errs, err)
	}
}

// failures returns which of addresses err is about: all of them when it is about
// none in particular.
func failures(addresses []announce.Address, err error) map[netip.Addr]error {
	failed := map[netip.Addr]error{}
	single := announce.AddressErrors(err)
	for _, e := range single {
		failed[e.Address.Prefix.Addr()] = e.Err
	}
	if err != nil && len(single) == 0 {
		for _, w := range addresses {
			failed[w.Prefix.Addr()] = err
		}
	}
	return failed
}

// nextPass returns when the next wanted address is half way through its lifetime
// or the next claim is due. Found are the addresses as they were before this
// pass: what was not there, or not for long any more, has its whole lifetime now.
func (a *Agent) nextPass(now time.Time, node announce.Node, wanted []announce.Address) time.Time {
	left := map[netip.Prefix]time.Duration{}
	for _, f := range node.Addresses {
		left[f.Prefix] = f.Valid
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
	next := now.Add(wait)
	if due, ok := a.claims.next(); ok && due.Before(next) {
		next = due
	}
	return next
}
