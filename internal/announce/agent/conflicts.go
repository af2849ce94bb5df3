package agent

import (
	"context"
	"maps"
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

// defendEvery is RFC 5227's DEFEND_INTERVAL.
const defendEvery = 10 * time.Second

// hear handles what another machine said about an address, and reports whether the loop must
// make a pass. A probe is only a question, and the kernel answers it. The loop may read the
// packet late, so the time of the packet counts.
//
// If gossip hears the node of that machine, the agent first asks the agent of that node:
// where kube-proxy is in IPVS mode, the kernels of all nodes answer the gratuitous ARP of
// this node.
func (a *Agent) hear(ctx context.Context, h announce.Heard) bool {
	if h.Probe || a.segments.proxies[proxy{linkFamily{h.Link, addr.FamilyOf(h.Addr)}, h.MAC}] || !a.claims(h) {
		return false
	}
	nodes := announce.Askable(h.MAC, a.Peers.Peers())
	if len(nodes) == 0 {
		return a.contest(ctx, time.Now(), h)
	}
	due := false
	for _, node := range nodes { // a claim of several nodes is a conflict unless all deny it
		due = a.claimants.note(h.At, node, h) || due
	}
	return due
}

// claims reports whether h claims an address that had been here for a while.
func (a *Agent) claims(h announce.Heard) bool {
	if a.held.read()[h.Addr] != h.Link {
		return false
	}
	one := a.addresses[h.Addr]
	return one == nil || h.At.Sub(one.Arrived) >= settling
}

// contest records that another machine claims an address that is here, and reports whether
// the loop must make a pass.
func (a *Agent) contest(ctx context.Context, now time.Time, h announce.Heard) bool {
	one := a.addresses.Of(h.Addr)
	// RFC 5227 (2.4 c) allows one defense in this time.
	if a.claiming && now.Sub(one.Defended) >= defendEvery {
		one.Defended = now
		a.send(ctx, h.Addr, h.Link)
	}
	news := a.conflicts.Note(h.At, announce.Rival{IP: h.Addr, MAC: h.MAC}, h.Link, true)
	a.conflicts.Identify(now, a.Peers.Peers())
	return news
}

// noteConflicts records the addresses for which other machines answer longer than they should. Now
// and then it also probes again for machines that had an address which no Service has now.
func (a *Agent) noteConflicts(now time.Time, seen *observation, plan announce.Plan, done outcome) (next todo) {
	a.conflicts.Forget(now)
	next = a.askClaimants(now)
	next.next = announce.Sooner(next.next, a.conflicts.NoteContests(now, plan, done.contests))
	a.conflicts.Identify(now, seen.Peers)
	if !seen.sure() {
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
					a.reporter.event(seen.services[svc.Key].ref(), corev1.EventTypeWarning, eventConflict, "%s", message)
				}
			}
		}
	}
}

// inheritConflicts takes over the machines that the agent before this one reported. This
// agent probes for them again, and the addresses stay reserved as long as the machines
// answer.
func (a *Agent) inheritConflicts(o *observation) {
	if o.Agent == nil {
		return // the links to probe on are not known yet
	}
	for _, h := range a.Peers.Inherited() {
		a.conflicts.Inherit(announce.Rival{IP: h.Addr, MAC: h.MAC}, h.Node, announce.HomeOf(h.Addr, *o.Agent, o.Node, o.adopt), h.At)
	}
}

// claimsOf returns the conflicts in the form of the Lease.
func claimsOf(conflicts announce.Conflicts, held map[netip.Addr]string) []lease.Claim {
	var claims []lease.Claim
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

// claimants are nodes of the cluster, by name, that claimed addresses that are here. The
// agent asks their agents whether they have these addresses.
type claimants map[string]*claimant

// claimant holds the claims of a node since its agent was last asked.
type claimant struct {
	claims map[netip.Addr]announce.Heard
	asked  time.Time
}

const (
	// askClaimantEvery is the shortest time between two questions to one agent. A node that
	// answers by mistake does so at each announcement here.
	askClaimantEvery = 10 * time.Second
	// maxClaims limits the addresses in one question. The agent hears further ones again.
	maxClaims = announce.MaxAddresses
)

// note records a claim of node, and reports whether to ask its agent now.
func (c claimants) note(now time.Time, node string, h announce.Heard) (due bool) {
	one := c[node]
	if one == nil {
		one = &claimant{claims: map[netip.Addr]announce.Heard{}}
		c[node] = one
	}
	if len(one.claims) < maxClaims {
		one.claims[h.Addr] = h
	}
	return !now.Before(one.asked.Add(askClaimantEvery))
}

// due returns the claims of the nodes whose agents the agent must ask now, and marks these agents
// as asked. next is when the next agents are due, or zero.
func (c claimants) due(now time.Time) (all map[string]map[netip.Addr]announce.Heard, next time.Time) {
	all = map[string]map[netip.Addr]announce.Heard{}
	for node, one := range c {
		again := one.asked.Add(askClaimantEvery)
		switch {
		case now.Before(again):
			if len(one.claims) > 0 {
				next = announce.Sooner(next, again)
			}
		case len(one.claims) == 0:
			delete(c, node)
		default:
			all[node] = one.claims
			one.claims, one.asked = map[netip.Addr]announce.Heard{}, now
		}
	}
	return all, next
}

// askClaimants asks the agents that are due. A claim that an agent does not deny is a
// conflict.
func (a *Agent) askClaimants(now time.Time) todo {
	due, next := a.claimants.due(now)
	work := todo{next: next}
	for node, claims := range due {
		work.tasks = append(work.tasks, func(ctx context.Context) completion {
			asking, cancel := context.WithTimeout(ctx, inquiryWait)
			defer cancel()
			for _, ip := range a.inquire(asking, node, slices.SortedFunc(maps.Keys(claims), netip.Addr.Compare)) {
				delete(claims, ip)
			}
			if len(claims) == 0 || ctx.Err() != nil {
				return nil
			}
			return func() {
				for _, h := range claims {
					if a.claims(h) {
						a.contest(ctx, time.Now(), h)
					}
				}
			}
		})
	}
	return work
}
