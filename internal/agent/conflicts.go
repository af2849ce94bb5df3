package agent

import (
	"context"
	"maps"
	"net"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/lease"
)

// settling is how long after an address was added it is no conflict that another
// machine claims it: a node that hands it over has it somewhat longer.
const settling = 2 * time.Second

// defendEvery is RFC 5227's DEFEND_INTERVAL.
const defendEvery = 10 * time.Second

// hear takes in what another machine says about an address, and says whether
// that makes a pass necessary. A probe is only a question, and the kernel answers.
//
// The agent of a node that gossip hears is asked first: where kube-proxy is in IPVS mode the
// kernels of all nodes answer when this node claims an address.
func (a *Agent) hear(ctx context.Context, now time.Time, h announce.Heard) bool {
	if a.held.read()[h.Addr] != h.Link || h.Probe || now.Sub(a.addresses.Of(h.Addr).Damping.Added) < settling {
		return false
	}
	if node, can := announce.Askable(h.MAC, a.Peers.Peers()); can {
		return a.claimants.note(now, node, h)
	}
	return a.contest(ctx, now, h)
}

// contest notes that another machine claims an address that is here, and says whether that
// makes a pass necessary.
func (a *Agent) contest(ctx context.Context, now time.Time, h announce.Heard) bool {
	one := a.addresses.Of(h.Addr)
	// RFC 5227 (2.4 c) allows no more.
	if a.claiming && now.Sub(one.Defended) >= defendEvery {
		one.Defended = now
		a.send(ctx, h.Addr, h.Link)
	}
	news := a.conflicts.Note(now, announce.Rival{IP: h.Addr, MAC: h.MAC}, h.Link, true)
	a.conflicts.Identify(now, a.Peers.Peers().MACs)
	return news
}

// noteConflicts notes the addresses that other machines answer for longer than they should,
// and asks now and then for the machines that have addresses of no Service.
func (a *Agent) noteConflicts(now time.Time, seen *observation, plan announce.Plan, done outcome) (next todo) {
	a.conflicts.Forget(now)
	next = a.askClaimants(now)
	next.next = announce.Sooner(next.next, a.conflicts.NoteContests(now, plan, done.contests))
	a.conflicts.Identify(now, seen.Peers.MACs)
	if !seen.sure() {
		return next
	}
	for link, ips := range a.conflicts.Recheck(now, seen.Services) {
		next.tasks = append(next.tasks, a.askAgain(link, ips, seen.asking(link)))
	}
	return next
}

// askAgain is the task of asking whether the machines that had the addresses still
// have them.
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

// reportConflicts tells people of the machines that claim our addresses, by events
// about the Services that have these.
func (a *Agent) reportConflicts(now time.Time, seen *observation) {
	for _, who := range a.conflicts.TakeUnreported(now) {
		message := a.conflicts.Message(a.Node, who, seen.Peers.MACs)
		a.Metrics.conflicts.Inc()
		a.Log.Warn("addressConflict", "node", a.Node, "address", who.IP, "mac", macText(who.MAC), "problem", message)
		for _, svc := range seen.Services {
			for _, ip := range svc.Addresses {
				if ip == who.IP {
					a.reporter.event(seen.services[svc.Key].ref(), corev1.EventTypeWarning, eventConflict, "%s", message)
				}
			}
		}
	}
}

// inheritConflicts notes the machines that the agent before this one reported. So this one
// asks for them again, and the addresses stay reserved as long as the machines answer.
func (a *Agent) inheritConflicts(o *observation) {
	if o.Agent == nil {
		return // it is not known yet on which links to ask
	}
	for _, h := range a.Peers.Inherited() {
		a.conflicts.Inherit(announce.Rival{IP: h.Addr, MAC: h.MAC}, h.Node, announce.HomeOf(h.Addr, *o.Agent, o.Node, o.adopt), h.At)
	}
}

// claimsOf are the conflicts as the Lease has them.
func claimsOf(conflicts announce.Conflicts, held map[netip.Addr]string) []lease.Claim {
	var claims []lease.Claim
	for _, who := range first(conflicts.Claims(held), lease.MaxClaims) {
		claims = append(claims, lease.Claim{Addr: who.IP, MAC: who.MAC, Node: conflicts[who].Node})
	}
	return claims
}

// showConflicts returns the conflicts as /state shows them.
func showConflicts(conflicts announce.Conflicts) []conflictShown {
	var all []conflictShown
	for _, who := range conflicts.Rivals(func(announce.Rival, *announce.Conflict) bool { return true }) {
		one := conflicts[who]
		all = append(all, conflictShown{who.IP, one.Link, macText(who.MAC), one.Here, one.Heard})
	}
	return all
}

func macText(mac [6]byte) string { return net.HardwareAddr(mac[:]).String() }

// claimants are nodes of the cluster, by name, that were heard to claim addresses that are
// here. Their agents are asked whether they have them.
type claimants map[string]*claimant

// claimant is what a node claimed since its agent was asked last.
type claimant struct {
	claims map[netip.Addr]announce.Heard
	asked  time.Time
}

const (
	// askClaimantEvery is how often an agent is asked at most. A node that answers by
	// mistake does so whenever an address is claimed here.
	askClaimantEvery = 10 * time.Second
	// maxClaims is how many addresses one is asked about at a time. More are heard again.
	maxClaims = announce.MaxAddresses
)

// note notes what node claims, and says whether its agent is to be asked now.
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

// due returns the claims of the nodes whose agents are to be asked now, which count as asked
// then, and when the next ones are due, or zero.
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

// askClaimants asks the agents that are due. What an agent does not deny is a conflict.
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
				for ip, h := range claims {
					if a.held.read()[ip] == h.Link {
						a.contest(ctx, time.Now(), h)
					}
				}
			}
		})
	}
	return work
}
