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

// apply changes the node to match plan, as far as that is possible now. It adds before it
// removes. An address that cannot be added in one place stays in the other.
//
// The steps may take long. Silence, offers and handovers expire, so each step reads the clock.
func (a *Agent) apply(ctx context.Context, seen *observation, plan announce.Plan) *announce.Outcome {
	noDummy := a.ensureDummy(ctx, seen)
	changes := announce.Diff(plan.Wanted, seen.Node)
	done := a.addresses.Come(time.Now(), seen.Situation, plan, changes.Add, seen.lately)
	a.noteRemovals(time.Now(), seen, plan, done.Vanished)
	notPut := a.Kernel.Put(ctx, done.Add)
	a.addresses.Came(time.Now(), plan, done, notPut)
	a.Metrics.additions.Add(float64(done.Put))
	notRefreshed := a.refresh(ctx, changes.Refresh)
	a.addresses.Leave(time.Now(), plan, changes.Remove, done)
	notRemoved := a.remove(ctx, done, plan.Wanted)
	done.Fail(noDummy, notRefreshed, notRemoved)
	return done
}

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

// remove takes the addresses off that done removes, unless they are wanted elsewhere on this node.
func (a *Agent) remove(ctx context.Context, done *announce.Outcome, wanted []announce.Address) error {
	if len(done.Remove) == 0 {
		return nil
	}
	err := a.Kernel.Remove(ctx, done.Remove)
	failed, all, still := announce.Failures(done.Remove, err), announce.IPs(done.Remove), announce.IPs(wanted)
	a.Metrics.withdrawals.Add(float64(len(done.Remove) - len(failed)))
	for ip := range all {
		if failed[ip] == nil && !still[ip] {
			done.Gone = append(done.Gone, ip)
		}
	}
	done.Removed = len(failed) < len(all)
	return err
}

// dropFailed takes off the addresses that failed duplicate address detection, and removes them from
// seen. The address then counts as missing, and the agent adds it again after a pause.
func (a *Agent) dropFailed(ctx context.Context, seen *observation) error {
	drop := announce.Failed(seen.Node)
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

// closePorts closes the node behind the addresses of Services. It comes before the pass adds addresses. A
// node that cannot close its ports says so, and announces nevertheless.
func (a *Agent) closePorts(ctx context.Context, seen *observation) {
	closed, known := announce.Closed(seen.Situation)
	if !known {
		return
	}
	a.open = ""
	if err := a.Kernel.Guard(ctx, closed); err != nil {
		a.open = err.Error()
	}
}

// ensureDummy creates the link for remote addresses once its name is certain. Without it the node still
// announces local addresses.
func (a *Agent) ensureDummy(ctx context.Context, seen *observation) error {
	if seen.Agent == nil || !seen.Sure() {
		return nil
	}
	if slices.ContainsFunc(seen.Node.Links, func(l announce.Link) bool { return l.Name == seen.Agent.Dummy && l.Up }) {
		return nil
	}
	a.noDummy = ""
	err := a.Kernel.EnsureDummy(ctx, seen.Agent.Dummy)
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
	p.Sources = announce.SourcesOn(link, o.Situation)
	return p
}

// sendLimit is how long sending a message may take. After that time the handover is over
// anyway.
const sendLimit = time.Second

// tasks returns the probes that done asks for, and the messages to other nodes.
func (a *Agent) tasks(seen *observation, done *announce.Outcome) (all []task) {
	for link, ips := range byLink(done.Probe) {
		all = append(all, a.probe(link, ips, seen))
	}
	for to, ips := range done.Taken {
		all = append(all, a.write(to, announce.Taken, ips)...)
	}
	return append(all, a.offers(done)...)
}

// offers returns the messages that ask other nodes to take addresses.
func (a *Agent) offers(done *announce.Outcome) (all []task) {
	for to, ips := range done.Take {
		a.Metrics.handovers.Add(float64(len(ips)))
		a.Log.Info("handingOver", "node", a.Node, "to", to, "addresses", ips)
		all = append(all, a.write(to, announce.Take, ips)...)
	}
	return all
}

// probe returns the task that probes the segment of link for ips. The probe asks for the witnesses
// too. If no witness answers, the silence about ips proves nothing.
func (a *Agent) probe(link string, ips []netip.Addr, seen *observation) task {
	asking, witnesses := seen.asking(link), announce.WitnessesOn(link, seen.Situation).Like(ips)
	asking.Everyone = true
	long := a.answeredLong(time.Now(), ips, seen)
	return func(ctx context.Context) completion {
		answers, err := a.Kernel.Probe(ctx, link, slices.Concat(ips, witnesses.All()), asking)
		ended := time.Now() // the silence counts from now, even if the loop reads it later
		alone, proxies := a.withoutProxies(ctx, link, ips, answers, seen)
		holders := alone.Holders(seen.Situation)
		dead := a.dropDead(ctx, link, long, holders, seen.Peers)
		return func() {
			a.noteProxies(ctx, link, proxies)
			maps.DeleteFunc(a.kubelets, func(node string, _ time.Time) bool { return dead[node] }) // their other addresses come next
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
			for node, served := range alone.Servers(seen.Situation) {
				a.Log.DebugContext(ctx, "askingServer", "node", a.Node, "to", node, "addresses", served)
				a.background.start(ctx, a.write(node, announce.Take, served))
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
	a.addresses.Probed(now, where.link, ips, holders)
	silent := len(slices.DeleteFunc(slices.Clone(ips), func(ip netip.Addr) bool { _, ok := holders[ip]; return ok }))
	a.Metrics.probes.WithLabelValues("answered").Add(float64(len(ips) - silent))
	a.Metrics.probes.WithLabelValues("silent").Add(float64(silent))
}

// notProbed records that a probe of ips on link failed.
func (a *Agent) notProbed(now time.Time, link string, ips []netip.Addr) {
	a.addresses.Unprobed(now, link, ips)
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
					a.addresses.Unasked(to, ips)
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
		a.addresses.Offered(got.Received, got.From, m.Addresses)
	case m.Kind == announce.Taken:
		a.addresses.Taken(got.Received, got.From, m.Addresses)
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
