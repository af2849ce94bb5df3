package agent

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/nodes/membership"
)

// outcome is the result of applying a plan.
type outcome struct {
	// added are the addresses that are new on this node, without those that vanish again and
	// again. put says that the agent added an address, whether it stayed or not.
	added map[netip.Addr]announce.Address
	put   bool
	// waiting are the addresses to add, and parting those to remove, that wait for another
	// machine. contests are the addresses for which other machines answer.
	waiting, parting map[netip.Addr]announce.Address
	contests         []announce.Contest
	// taken are the addresses that are here and that their other holder gives up.
	taken map[netip.Addr]bool
	// removed says that the agent removed an address. gone are the addresses that are no
	// longer anywhere on this node.
	removed bool
	gone    []netip.Addr
	// failed holds the addresses that could not be added, and why.
	failed map[netip.Addr]error
	// errs holds all failures.
	errs []error
}

// fail adds err, unless it is nil.
func (o *outcome) fail(err error) {
	if err != nil {
		o.errs = append(o.errs, err)
	}
}

// unfinished reports whether ip still waits for another machine.
func (o *outcome) unfinished(ip netip.Addr) bool {
	_, comes := o.waiting[ip]
	_, goes := o.parting[ip]
	return (comes || goes) && o.failed[ip] == nil
}

// misplaced returns the addresses that are not in their wanted place.
func (o *outcome) misplaced() map[netip.Addr]bool {
	all := map[netip.Addr]bool{}
	for ip := range o.waiting {
		all[ip] = true
	}
	for ip := range o.failed {
		all[ip] = true
	}
	return all
}

// awaited reports whether other nodes wait for an address that was added. They wait for local
// addresses, because a local address has one holder.
func (o *outcome) awaited(plan announce.Plan) bool {
	return slices.ContainsFunc(plan.Decisions, func(d announce.Decision) bool {
		_, added := o.added[d.IP]
		return added && d.Where == announce.Local
	})
}

// apply changes the node to match plan, as far as that is possible now. It adds before it
// removes. An address that cannot be added in one place stays in the other.
func (a *Agent) apply(ctx context.Context, seen *observation, plan announce.Plan) (outcome, todo) {
	noDummy := a.ensureDummy(ctx, seen)
	changes := announce.Diff(plan.Wanted, seen.Node, seen.adopt)

	// The steps of a pass may take long. Silence, offers and handovers expire, so compare them with
	// the present time.
	a.takeovers.OfferedBy(seen.Peers.Members)
	coming := a.addresses.Arrivals(time.Now(), plan, changes.Add, seen.Node, seen.lately, &a.takeovers)
	a.noteRemovals(time.Now(), seen, plan, coming.Vanished)
	notPut := a.Kernel.Put(ctx, coming.Add)
	put := a.addresses.Additions(time.Now(), plan, coming, notPut)
	a.Metrics.additions.Add(float64(put.Count))
	notRefreshed := a.refresh(ctx, changes.Refresh)

	going := a.handovers.Sift(time.Now(), plan, changes.Removable(put.Missing))
	removed, gone, notRemoved := a.remove(ctx, going.Remove, plan.Wanted)
	return outcome{
		added: put.Added, put: put.Count > 0, failed: put.Failed,
		waiting: coming.Waiting, contests: coming.Contested, taken: coming.Taken,
		parting: going.Waiting, removed: removed, gone: gone,
		errs: slices.DeleteFunc(append(put.Errs, noDummy, notRefreshed, notRemoved), succeeded),
	}, together(a.arrivalTasks(seen, coming), a.departureTasks(going))
}

func succeeded(err error) bool { return err == nil }

// noteRemovals records that a program of the node took the addresses in vanished off, or all remote ones.
func (a *Agent) noteRemovals(now time.Time, seen *observation, plan announce.Plan, vanished map[netip.Addr]bool) {
	remote := ""
	for _, d := range plan.Decisions {
		if vanished[d.IP] {
			by := announce.PrunesForeign
			if len(seen.Node.Former) > 0 {
				by = announce.FlushesLink
			}
			a.removals.Note(now, d.Address.Link, by)
			vanished = nil // the others went with it
		}
		if d.Where == announce.Remote {
			remote = d.Address.Link
		}
	}
	there := slices.ContainsFunc(seen.Node.Addresses, func(f announce.Address) bool { return f.Link == remote })
	if remote != "" && remote == a.remote && !there {
		a.removals.Note(now, remote, announce.ManagesDummy)
	}
	a.remote = remote
}

// refresh writes addresses that are already there.
func (a *Agent) refresh(ctx context.Context, addresses []announce.Address) error {
	err := a.Kernel.Put(ctx, addresses)
	bad := len(announce.Failures(addresses, err))
	a.Metrics.renewals.Add(float64(len(addresses) - bad))
	a.Metrics.renewalErrors.Add(float64(bad))
	return err
}

// remove takes addresses off. It reports whether any went, and which are no longer anywhere
// on this node.
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

// dropFailed takes off the addresses that failed duplicate address detection, and removes them from
// seen. The address then counts as missing, and the agent adds it again after a pause.
func (a *Agent) dropFailed(ctx context.Context, seen *observation) error {
	drop := announce.Failed(seen.Node, seen.adopt)
	if len(drop) == 0 {
		return nil
	}
	err := a.Kernel.Remove(ctx, drop)
	stays := announce.Failures(drop, err)
	for _, failed := range drop {
		delete(seen.lately, failed.Prefix.Addr())
	}
	seen.Node.Addresses = slices.DeleteFunc(seen.Node.Addresses, func(found announce.Address) bool {
		return slices.Contains(drop, found) && stays[found.Prefix.Addr()] == nil
	})
	return err
}

// ensureDummy creates the link for remote addresses once its name is certain. Without it the node still
// announces local addresses.
func (a *Agent) ensureDummy(ctx context.Context, seen *observation) error {
	if seen.Agent == nil || !seen.sure() {
		return nil
	}
	if slices.ContainsFunc(seen.Node.Links, func(l announce.Link) bool { return l.Name == seen.Agent.Dummy && l.Up }) {
		return nil
	}
	a.noDummy = ""
	_, err := a.Kernel.EnsureDummy(ctx, seen.Agent.Dummy)
	if err != nil {
		a.noDummy = err.Error()
	}
	return err
}

// heldAddresses are the addresses of this node that belong here: the local ones, and the
// remote ones on a kernel without marks. The loop owns all fields but links.
type heldAddresses struct {
	// links holds the links of the local addresses. The map is replaced, never changed.
	links atomic.Pointer[map[netip.Addr]string]
	// remote holds the remote addresses and their links. On a kernel with marks, the marks identify
	// them.
	remote map[netip.Addr]string
}

// read returns the local addresses and their links. It is safe for concurrent use.
func (h *heldAddresses) read() map[netip.Addr]string {
	if links := h.links.Load(); links != nil {
		return *links
	}
	return nil
}

// hold records the addresses after a pass.
func (h *heldAddresses) hold(local, remote map[netip.Addr]string) {
	h.remote = remote
	if !maps.Equal(local, h.read()) {
		h.links.Store(&local)
	}
}

// probing says how to probe a segment for an address. A machine that has it answers within a
// millisecond or two. The second try is for a lost packet.
var probing = announce.Probing{Count: 2, Interval: 40 * time.Millisecond, Wait: 60 * time.Millisecond}

// asking returns how this node probes on link, by its own addresses.
func (o *observation) asking(link string) announce.Probing {
	p := probing
	p.Sources = announce.SourcesOn(link, o.Situation, o.adopt)
	return p
}

// sendLimit is how long sending a message may take. After that time the handover is over
// anyway.
const sendLimit = time.Second

// arrivalTasks returns the probes that are due before addresses come here, and the messages that
// are due when they are here.
func (a *Agent) arrivalTasks(seen *observation, coming announce.Arrivals) todo {
	all := todo{next: coming.Next}
	for link, ips := range byLink(coming.Probe) {
		all.tasks = append(all.tasks, a.probe(link, ips, seen))
	}
	for to, ips := range coming.Answer {
		all.tasks = append(all.tasks, a.write(to, announce.Taken, ips)...)
	}
	return all
}

// departureTasks returns the requests to other nodes to take addresses, which are due before the
// addresses leave.
func (a *Agent) departureTasks(going announce.Withdrawals) todo {
	all := todo{next: going.Next}
	for to, ips := range going.Ask {
		a.Metrics.handovers.Add(float64(len(ips)))
		a.Log.Info("handingOver", "node", a.Node, "to", to, "addresses", ips)
		all.tasks = append(all.tasks, a.write(to, announce.Take, ips)...)
	}
	return all
}

// probe returns the task that probes the segment of link for ips. The probe asks for the witnesses
// too. If no witness answers, the silence about ips proves nothing.
func (a *Agent) probe(link string, ips []netip.Addr, seen *observation) task {
	asking, witnesses := seen.asking(link), announce.WitnessesOn(link, seen.Situation, seen.adopt).Like(ips)
	asking.Everyone = true
	long := a.answeredLong(ips, seen)
	return func(ctx context.Context) completion {
		answers, err := a.Kernel.Probe(ctx, link, slices.Concat(ips, witnesses.All()), asking)
		ended := time.Now() // the silence counts from now, even if the loop reads it later
		alone, proxies := a.withoutProxies(ctx, link, ips, answers, seen)
		holders := alone.Holders(seen.Situation)
		a.dropDead(ctx, link, long, holders, seen.Peers)
		return func() {
			a.noteProxies(ctx, link, proxies)
			for family, some := range byFamily(ips) {
				if err != nil {
					a.notProbed(ended, link, some)
				} else {
					a.probed(ctx, ended, linkFamily{link, family}, some, witnesses.Like(some), answers, holders)
				}
			}
			if err != nil {
				a.Log.WarnContext(ctx, "notProbed", "node", a.Node, "interface", link, "addresses", len(ips), "error", err)
			}
		}
	}
}

// probed records the machines that have ips. All ips are of one family. answers are all answers,
// and holders are the machines that have the addresses according to these answers.
func (a *Agent) probed(
	ctx context.Context, now time.Time, where linkFamily, ips []netip.Addr, w announce.Witnesses,
	answers announce.Answers, holders map[netip.Addr][6]byte,
) {
	heard := announce.Answers{}
	for _, ip := range slices.Concat(ips, w.All()) {
		if macs, ok := answers[ip]; ok {
			heard[ip] = macs
		}
	}
	a.hearSegment(ctx, where, w, heard)
	if w.Missing(heard) {
		a.notProbed(now, where.link, ips)
		return
	}
	a.takeovers.Probed(now, where.link, ips, holders)
	silent := len(slices.DeleteFunc(slices.Clone(ips), func(ip netip.Addr) bool { _, ok := holders[ip]; return ok }))
	a.Metrics.probes.WithLabelValues("answered").Add(float64(len(ips) - silent))
	a.Metrics.probes.WithLabelValues("silent").Add(float64(silent))
}

// notProbed records that a probe of ips on link failed.
func (a *Agent) notProbed(now time.Time, link string, ips []netip.Addr) {
	a.takeovers.Unprobed(now, link, ips)
	a.Metrics.probes.WithLabelValues("failed").Add(float64(len(ips)))
}

// write returns the tasks that send a message about addresses to the agent of another node.
// If the message does not arrive, that node cannot take them.
func (a *Agent) write(to string, kind announce.MessageKind, ips []netip.Addr) []task {
	var all []task
	for _, message := range announce.Encode(kind, ips) {
		all = append(all, func(ctx context.Context) completion {
			ctx, cancel := context.WithTimeout(ctx, sendLimit)
			defer cancel()
			err := a.Peers.Send(ctx, to, message)
			if err == nil {
				return nil
			}
			return func() {
				a.Log.WarnContext(ctx, "messageNotSent", "node", a.Node, "to", to, "addresses", len(ips), "error", err)
				if kind == announce.Take {
					a.handovers.Unasked(to, ips)
				}
			}
		})
	}
	return all
}

// handleMessage handles an offer or a question of another agent, or its answer to one.
func (a *Agent) handleMessage(ctx context.Context, got membership.Message) {
	m, err := announce.Decode(got.Body)
	switch {
	case err != nil:
		a.Log.Debug("messageNotUnderstood", "node", a.Node, "from", got.From, "error", err)
	case m.Kind == announce.Take:
		a.takeovers.Offered(got.Received, got.From, m.Addresses)
	case m.Kind == announce.Taken:
		a.handovers.Taken(got.From, m.Addresses)
	case m.Kind == announce.Listen:
		a.background.wait.Go(func() { a.listenFor(ctx, got.From, m.Addresses) })
	case m.Kind == announce.NotHeard:
		a.noteNotHeard(got.From, m.Addresses)
	}
}

func byLink(addresses []announce.Address) map[string][]netip.Addr {
	links := map[string][]netip.Addr{}
	for _, a := range addresses {
		links[a.Link] = append(links[a.Link], a.Prefix.Addr())
	}
	return links
}

func byFamily(ips []netip.Addr) map[addr.Family][]netip.Addr {
	families := map[addr.Family][]netip.Addr{}
	for _, ip := range ips {
		families[addr.FamilyOf(ip)] = append(families[addr.FamilyOf(ip)], ip)
	}
	return families
}
