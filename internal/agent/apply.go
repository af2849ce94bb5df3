package agent

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"purelb.io/purelb/internal/announce"
)

// outcome is what became of a plan.
type outcome struct {
	// added are the addresses that are new on this node and have not vanished again and
	// again. put says that an address was added, whether it stayed or not.
	added map[netip.Addr]announce.Address
	put   bool
	// waiting are the addresses that are to come, and parting those that are to go,
	// while another machine has a say in it first. contests are the addresses that
	// other machines answer for.
	waiting, parting map[netip.Addr]announce.Address
	contests         []announce.Contest
	// taken are addresses that are here and that another holder gives up for this node.
	taken map[netip.Addr]bool
	// removed says that something was taken off. gone are the addresses that are nowhere
	// on this node any more.
	removed bool
	gone    []netip.Addr
	// failed are the addresses that could not be added, and why.
	failed map[netip.Addr]error
	// errs are all failures.
	errs []error
}

// fail adds err, unless it is nil.
func (o *outcome) fail(err error) {
	if err != nil {
		o.errs = append(o.errs, err)
	}
}

// unfinished says that ip is to come or to go, and that another machine has a say in when.
func (o *outcome) unfinished(ip netip.Addr) bool {
	_, comes := o.waiting[ip]
	_, goes := o.parting[ip]
	return (comes || goes) && o.failed[ip] == nil
}

// awaited says that other nodes wait for something that was added: a local address has one
// holder.
func (o *outcome) awaited(plan announce.Plan) bool {
	return slices.ContainsFunc(plan.Decisions, func(d announce.Decision) bool {
		_, added := o.added[d.IP]
		return added && d.Where == announce.Local
	})
}

// apply makes the node be as planned, as far as that is possible now. It adds before it
// removes, and an address that cannot be added in one place stays in the other.
func (a *Agent) apply(ctx context.Context, now time.Time, seen *observation, plan announce.Plan) (outcome, todo) {
	noDummy := a.ensureDummy(ctx, seen)
	changes := announce.Diff(plan.Wanted, seen.Node, seen.adopt)

	// What counts for a while only must count still: to look at the world may have taken
	// long.
	coming := a.addresses.Arrivals(time.Now(), plan, changes.Add, seen.Node, &a.takeovers)
	put := a.addresses.Additions(now, plan, coming, a.Kernel.Put(ctx, coming.Add))
	a.Metrics.additions.Add(float64(put.Count))
	notRefreshed := a.refresh(ctx, changes.Refresh)

	going := a.handovers.Sift(now, plan, changes.Removable(put.Missing))
	removed, gone, notRemoved := a.remove(ctx, going.Remove, plan.Wanted)
	return outcome{
		added: put.Added, put: put.Count > 0, failed: put.Failed,
		waiting: coming.Waiting, contests: coming.Contested, taken: coming.Taken,
		parting: going.Waiting, removed: removed, gone: gone,
		errs: slices.DeleteFunc(append(put.Errs, noDummy, notRefreshed, notRemoved), succeeded),
	}, together(a.tellOfArrivals(seen, coming), a.tellOfDepartures(going))
}

func succeeded(err error) bool { return err == nil }

// refresh writes addresses again that are there.
func (a *Agent) refresh(ctx context.Context, addresses []announce.Address) error {
	err := a.Kernel.Put(ctx, addresses)
	bad := len(announce.Failures(addresses, err))
	a.Metrics.renewals.Add(float64(len(addresses) - bad))
	a.Metrics.renewalErrors.Add(float64(bad))
	return err
}

// remove takes addresses off. It says whether any went, and which are nowhere on this node
// any more.
func (a *Agent) remove(ctx context.Context, addresses, wanted []announce.Address) (removed bool, gone []netip.Addr, err error) {
	if len(addresses) == 0 {
		return false, nil, nil
	}
	err = a.Kernel.Remove(ctx, addresses)
	failed, all, still := announce.Failures(addresses, err), announce.IPs(addresses), announce.IPs(wanted)
	a.Metrics.withdrawals.Add(float64(len(addresses) - len(failed)))
	for ip := range all {
		if failed[ip] == nil && !still[ip] {
			gone = append(gone, ip)
		}
	}
	return len(failed) < len(all), gone, err
}

// dropFailed takes off what duplicate address detection has failed for, and shows seen
// without it. Such an address is missing then, and is tried again after a pause.
func (a *Agent) dropFailed(ctx context.Context, seen *observation) error {
	drop := announce.Failed(seen.Node, seen.adopt)
	if len(drop) == 0 {
		return nil
	}
	err := a.Kernel.Remove(ctx, drop)
	stays := announce.Failures(drop, err)
	seen.Node.Addresses = slices.DeleteFunc(seen.Node.Addresses, func(found announce.Address) bool {
		return slices.Contains(drop, found) && stays[found.Prefix.Addr()] == nil
	})
	return err
}

// forgetFlows is the task of ending the flows to the addresses: with a million
// of connections, the kernel takes its time to find them.
func (a *Agent) forgetFlows(ips []netip.Addr) task {
	return func(ctx context.Context) completion {
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

// heldAddresses are the addresses that are here and belong here: the local ones, and on a
// kernel without marks the remote ones. All of it but links belongs to the loop.
type heldAddresses struct {
	// links are the links of the local ones. The map is replaced, never changed.
	links atomic.Pointer[map[netip.Addr]string]
	// remote are the remote addresses. Where the kernel keeps marks, they are known by
	// their marks.
	remote map[netip.Addr]bool
}

// read returns the local addresses and their links. It is safe for concurrent use.
func (h *heldAddresses) read() map[netip.Addr]string {
	if links := h.links.Load(); links != nil {
		return *links
	}
	return nil
}

// hold notes what is here after a pass. Carried is what was before it.
func (h *heldAddresses) hold(seen *observation, carried map[netip.Addr]bool, plan announce.Plan, done outcome) {
	here := announce.IPs(seen.Node.Addresses)
	links, remote := map[netip.Addr]string{}, map[netip.Addr]bool{}
	for _, d := range plan.Decisions {
		_, just := done.added[d.IP]
		switch {
		case done.failed[d.IP] != nil:
		case d.Where == announce.Local && (just || carried[d.IP]):
			links[d.IP] = d.Address.Link
		case d.Where == announce.Remote && (just || here[d.IP]) && !seen.Node.MarksSupported:
			remote[d.IP] = true
		}
	}
	for ip := range h.remote {
		if here[ip] { // also if it could not be removed
			remote[ip] = true
		}
	}
	h.remote = remote
	if !maps.Equal(links, h.read()) {
		h.links.Store(&links)
	}
}
