package agent

import (
	"context"
	"maps"
	"net/netip"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/internal/announce"
)

// holdings are the addresses that are here and belong here: the local ones, and on a
// kernel without marks the remote ones. All of it but links belongs to the loop.
type holdings struct {
	// links are the links of the local ones. The map is replaced, never changed.
	links atomic.Pointer[map[netip.Addr]string]
	// remote are the remote addresses. They are known by their marks where the kernel
	// keeps marks.
	remote map[netip.Addr]bool
	// since is when they were added, for those that were.
	since map[netip.Addr]time.Time
	// defended is when one was claimed because another machine did.
	defended map[netip.Addr]time.Time
}

// settling is how long after an address was added it is no conflict that another
// machine claims it: who hands it over has it somewhat longer.
const settling = 2 * time.Second

// read returns the addresses and their links. It is safe for concurrent use.
func (h *holdings) read() map[netip.Addr]string {
	if links := h.links.Load(); links != nil {
		return *links
	}
	return nil
}

// hold notes what is here after a pass.
func (h *holdings) hold(now time.Time, seen *observation, plan announce.Plan, done outcome) {
	here := addressesOf(seen.Node.Addresses)
	links, remote := map[netip.Addr]string{}, map[netip.Addr]bool{}
	for _, d := range plan.Decisions {
		_, just := done.added[d.IP]
		switch {
		case !just && !here[d.IP] || done.failed[d.IP] != nil:
		case d.Where == announce.Local:
			links[d.IP] = d.Address.Link
		case d.Where == announce.Remote && !seen.Node.MarksSupported:
			remote[d.IP] = true
		}
	}
	for ip := range h.remote {
		if here[ip] { // also if it could not be removed
			remote[ip] = true
		}
	}
	h.remote = remote
	if h.since == nil {
		h.since, h.defended = map[netip.Addr]time.Time{}, map[netip.Addr]time.Time{}
	}
	for ip := range done.added {
		h.since[ip] = now
	}
	gone := func(ip netip.Addr, _ time.Time) bool { return links[ip] == "" }
	maps.DeleteFunc(h.since, gone)
	maps.DeleteFunc(h.defended, gone)
	if !maps.Equal(links, h.read()) {
		h.links.Store(&links)
	}
}

// hear takes in what another machine says about an address, and says whether
// that makes a pass necessary. A probe is only a question, and the kernel answers.
func (a *Agent) hear(ctx context.Context, now time.Time, h announce.Heard) bool {
	if a.holdings.read()[h.Addr] != h.Link || h.Probe || now.Sub(a.holdings.since[h.Addr]) < settling {
		return false
	}
	a.defend(ctx, now, h)
	return a.conflicts.note(now, rival{h.Addr, h.MAC}, h.Link, true)
}

// defend claims an address that another machine claims, not more often than
// RFC 5227 allows (2.4 c).
func (a *Agent) defend(ctx context.Context, now time.Time, h announce.Heard) {
	if !a.claiming || now.Sub(a.holdings.defended[h.Addr]) < defendEvery {
		return
	}
	a.holdings.defended[h.Addr] = now
	a.send(ctx, h.Addr, h.Link)
}

// patience is how long an answered address is waited for before people are told:
// those of a node whose agent is gone are answered until they expire, others at
// most for the moment in which they move.
func patience(d announce.Decision) time.Duration {
	if d.Used {
		return 90 * time.Second
	}
	return time.Second
}

// noteContests notes the addresses that other machines answer for longer than
// they should.
func (a *Agent) noteContests(now time.Time, plan announce.Plan, contests []announce.Contest) (next todo) {
	a.conflicts.forget(now)
	if len(contests) == 0 {
		return next
	}
	waits := make(map[netip.Addr]time.Duration, len(plan.Decisions))
	for _, d := range plan.Decisions {
		waits[d.IP] = patience(d)
	}
	for _, contest := range contests {
		ip := contest.Address.Prefix.Addr()
		if at := contest.Since.Add(waits[ip]); now.Before(at) {
			next.next = sooner(next.next, at)
		} else {
			a.conflicts.note(now, rival{ip, contest.MAC}, contest.Address.Link, false)
		}
	}
	return next
}

// tellConflicts tells people of the machines that claim our addresses, by events
// about the Services that have these.
func (a *Agent) tellConflicts(now time.Time, seen *observation) {
	for _, who := range a.conflicts.untold(now) {
		message := a.conflicts.message(a.Node, who)
		a.Metrics.conflicts.Inc()
		a.Log.Warn("addressConflict", "node", a.Node, "address", who.ip, "mac", who.text(), "problem", message)
		for _, svc := range seen.Services {
			for _, ip := range svc.Addresses {
				if ip == who.ip {
					a.reporter.event(seen.services[svc.Key].ref(), corev1.EventTypeWarning, eventConflict, "%s", message)
				}
			}
		}
	}
}
