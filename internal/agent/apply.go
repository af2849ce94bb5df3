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

// apply makes the node be as planned: what is added comes before what is removed,
// and an address that cannot be added in one place stays in the other.
func (a *Agent) apply(ctx context.Context, now time.Time, seen *observation, plan announce.Plan, done *outcome) {
	done.note(a.ensureDummy(ctx, seen))
	changes := announce.Diff(plan.Wanted, seen.Node, seen.adopt)
	add := a.sift(now, seen, plan, changes.Add, done)
	err := errors.Join(a.add(ctx, now, plan.Wanted, add, done), done.notYet(plan))
	a.goOnFailing(changes.Add, done)

	a.refresh(ctx, changes.Refresh, done)
	a.remove(ctx, a.part(now, plan, changes.Removable(err), done), plan.Wanted, done)
}

// add adds what is missing of wanted, notes what became of it, and returns an
// announce.AddressError for each that is not there, or not there to stay.
func (a *Agent) add(ctx context.Context, now time.Time, wanted, add []announce.Address, done *outcome) error {
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
		done.added[w.Prefix.Addr()], done.put = w, true
		a.Metrics.additions.Inc()
	}
	err = errors.Join(lost...)
	done.failed = failures(nil, err)
	maps.DeleteFunc(done.added, func(ip netip.Addr, _ announce.Address) bool { return done.failed[ip] != nil })
	return err
}

// goOnFailing has what failed last time fail still, while the segment is asked
// once more: it is not better, only not tried yet.
func (a *Agent) goOnFailing(missing []announce.Address, done *outcome) {
	for _, w := range missing {
		ip := w.Prefix.Addr()
		_, waiting := done.waiting[ip]
		if err := a.failing[ip]; err != nil && waiting && done.failed[ip] == nil {
			done.failed[ip] = err
			done.note(&announce.AddressError{Address: w, Err: err})
		}
	}
	a.failing = done.failed
}

// notYet is an announce.AddressError for each address that is waiting, so that it
// stays where it is meanwhile. But not without a carrier when another machine has
// it: it would be answered twice as soon as there is one.
func (o *outcome) notYet(plan announce.Plan) error {
	contested := map[netip.Addr]bool{}
	for _, c := range o.contests {
		contested[c.Address.Prefix.Addr()] = true
	}
	waiting := maps.Clone(o.waiting)
	for _, d := range plan.Decisions {
		if d.Dark && contested[d.IP] {
			delete(waiting, d.IP)
		}
	}
	var errs []error
	for _, w := range waiting {
		errs = append(errs, &announce.AddressError{Address: w, Err: errWaiting})
	}
	return errors.Join(errs...)
}

func (a *Agent) refresh(ctx context.Context, addresses []announce.Address, done *outcome) {
	err := a.Kernel.Put(ctx, addresses)
	bad := len(failures(addresses, err))
	done.note(err)
	a.Metrics.renewals.Add(float64(len(addresses) - bad))
	a.Metrics.renewalErrors.Add(float64(bad))
}

// remove takes addresses off, and notes which are gone from this node.
func (a *Agent) remove(ctx context.Context, addresses, wanted []announce.Address, done *outcome) {
	if len(addresses) == 0 {
		return
	}
	err := a.Kernel.Remove(ctx, addresses)
	done.note(err)
	failed := failures(addresses, err)
	done.removed = len(failed) < len(addressesOf(addresses))
	a.Metrics.withdrawals.Add(float64(len(addresses) - len(failed)))
	still := addressesOf(wanted)
	for ip := range addressesOf(addresses) {
		if failed[ip] == nil && !still[ip] {
			done.gone = append(done.gone, ip)
		}
	}
}

// forgetFlows is the errand of ending the flows to the addresses: with a million
// of connections, the kernel takes its time to find them.
func (a *Agent) forgetFlows(ips []netip.Addr) errand {
	return func(ctx context.Context) note {
		ctx, cancel := context.WithTimeout(ctx, passLimit)
		defer cancel()
		if _, err := a.Kernel.ForgetFlows(ctx, ips); err != nil && ctx.Err() == nil {
			a.Log.WarnContext(ctx, "flowsNotForgotten", "node", a.Node, "addresses", len(ips), "error", err)
		}
		return nil
	}
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
