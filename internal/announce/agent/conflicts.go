package agent

import (
	"context"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/announce/agentstate"
	"purelb.io/purelb/internal/nodes/lease"
)

// settling is the time after an address was added in which a claim of another machine is no
// conflict. A node that hands the address over keeps it somewhat longer.
const settling = 2 * time.Second

// hear handles what another machine said about an address, and reports whether the loop must
// make a pass. A probe is only a question, and the kernel answers it. The loop may read the
// packet late, so the time of the packet counts.
func (a *Agent) hear(ctx context.Context, h announce.Heard) bool {
	if h.Probe || a.segments.proxies[proxy{linkFamily{h.Link, addr.FamilyOf(h.Addr)}, h.MAC}] || !a.claims(h) {
		return false
	}
	node, seen := a.Peers.Peers().MACs[h.MAC], a.shown.Load().seen // there was a pass: the address is here
	mistaken := announce.AnswersByMistake(seen.Node) && h.Addr.Is4() && a.addresses.Named(h.Addr) != node
	if node != "" && (mistaken || a.addresses.Asked(node, h.Addr)) {
		return false
	}
	return a.contest(ctx, time.Now(), h, seen.Agent != nil && seen.Agent.GARP.Enabled)
}

// claims reports whether h claims an address that had been here for a while. Another link of this node is no
// other machine.
func (a *Agent) claims(h announce.Heard) bool {
	own := slices.ContainsFunc(a.links, func(l announce.Link) bool { return l.MAC == h.MAC })
	return !own && a.held.read()[h.Addr] == h.Link && h.At.Sub(a.addresses.Arrived(h.Addr)) >= settling
}

// contest records that another machine claims an address that is here, and reports whether
// the loop must make a pass. garp says whether this node may announce the address too.
func (a *Agent) contest(ctx context.Context, now time.Time, h announce.Heard, garp bool) bool {
	if garp && a.addresses.Defend(now, h.Addr) {
		a.send(ctx, h.Addr, h.Link)
	}
	news := a.conflicts.Note(h.At, announce.Rival{IP: h.Addr, MAC: h.MAC}, h.Link, true)
	a.conflicts.Identify(now, a.Peers.Peers())
	return news
}

// noteConflicts records the addresses for which other machines answer longer than they should. Now
// and then it also probes again for machines that had an address which no Service has now.
func (a *Agent) noteConflicts(now time.Time, seen *observation, plan announce.Plan, done *announce.Outcome) (next todo) {
	a.conflicts.Forget(now)
	next.next = a.conflicts.NoteContests(now, plan, seen.Peers, done.Contests)
	a.conflicts.Identify(now, seen.Peers)
	if !seen.Sure() {
		return next
	}
	for link, ips := range a.conflicts.Recheck(now, seen.Services) {
		next.tasks = append(next.tasks, a.askAgain(link, ips, seen.asking(link)))
	}
	return next
}

// askAgain returns the task that asks whether the machines that had the addresses still have
// them.
func (a *Agent) askAgain(link string, ips []netip.Addr, asking announce.Probing) task {
	return func(ctx context.Context) completion {
		answers, err := a.Kernel.Probe(ctx, link, ips, asking)
		if err != nil {
			a.Log.DebugContext(ctx, "notProbed", "node", a.Node, "interface", link, "addresses", len(ips), "error", err)
			return nil
		}
		ended := time.Now()
		return func() { a.conflicts.Answered(ended, link, answers) }
	}
}

// reportConflicts reports the machines that claim our addresses, by events on the Services
// that have these addresses.
func (a *Agent) reportConflicts(now time.Time, seen *observation) {
	for _, who := range a.conflicts.TakeUnreported(now) {
		message := a.conflicts.Message(a.Node, who, seen.Peers)
		a.Metrics.conflicts.Inc()
		a.Log.Warn("addressConflict", "node", a.Node, "address", who.IP, "mac", announce.MACText(who.MAC), "problem", message)
		for _, svc := range seen.Services {
			for _, ip := range svc.Addresses {
				if ip == who.IP {
					a.Events.Eventf(seen.services[svc.Key].ref(), corev1.EventTypeWarning, eventConflict, "%s", message)
				}
			}
		}
	}
}

// inheritConflicts takes over, once, the machines that the agent before this one reported. This agent
// probes for them again, and the addresses stay reserved as long as the machines answer.
func (a *Agent) inheritConflicts(now time.Time, o *observation) {
	all, known := a.Peers.Inherited()
	if a.inherited || !known {
		return
	}
	a.inherited = true
	for _, h := range all {
		link := ""
		if o.Agent != nil {
			link = announce.HomeOf(h.Addr, *o.Agent, o.Node)
		}
		a.conflicts.Inherit(announce.Rival{IP: h.Addr, MAC: h.MAC}, h.Node, link, h.At)
	}
	a.conflicts.Forget(now)
}

// claimsOf returns the conflicts in the form of the Lease.
func claimsOf(conflicts announce.Conflicts, held map[netip.Addr]string) []lease.Claim {
	claims := []lease.Claim{}
	for _, who := range first(conflicts.Claims(held), lease.MaxClaims) {
		claims = append(claims, lease.Claim{Addr: who.IP, MAC: who.MAC, Node: conflicts[who].Node})
	}
	return claims
}

// showConflicts returns the conflicts as /state shows them.
func showConflicts(conflicts announce.Conflicts) []agentstate.Conflict {
	var all []agentstate.Conflict
	for _, who := range conflicts.Rivals(func(announce.Rival, *announce.Conflict) bool { return true }) {
		one := conflicts[who]
		all = append(all, agentstate.Conflict{IP: who.IP, Link: one.Link, MAC: announce.MACText(who.MAC), Here: one.Here, Heard: one.Heard})
	}
	return all
}
