package agent

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/announce"
)

// claims are the times at which this node tells the segment that it has an
// address (gratuitous ARP, unsolicited Neighbor Advertisement).
type claims map[netip.Addr]claim

type claim struct {
	link string
	due  []time.Time
	// waiting says that the times begin when the kernel has found out that
	// nobody else has the address: a claim before that might be a lie, and
	// would bring packets that the kernel does not take yet.
	waiting bool
}

// next returns the earliest time.
func (c claims) next() (at time.Time, ok bool) {
	for _, one := range c {
		if len(one.due) > 0 && (!ok || one.due[0].Before(at)) {
			at, ok = one.due[0], true
		}
	}
	return at, ok
}

// take returns the links of the claims that are due at now, and forgets them.
// Those that were missed are not made up for.
func (c claims) take(now time.Time) map[netip.Addr]string {
	due := map[netip.Addr]string{}
	for ip, one := range c {
		rest := slices.DeleteFunc(slices.Clone(one.due), func(at time.Time) bool { return !at.After(now) })
		if len(rest) < len(one.due) {
			due[ip] = one.link
		}
		if one.waiting {
			continue
		}
		if len(rest) == 0 {
			delete(c, ip)
		} else {
			c[ip] = claim{link: one.link, due: rest}
		}
	}
	return due
}

// sendClaims starts the schedule of what was added, ends that of what is not
// wanted any more, and sends what is due.
func (a *Agent) sendClaims(ctx context.Context, now time.Time, seen *observation, plan announce.Plan, done outcome) (next todo) {
	local, moved := map[netip.Addr]string{}, map[netip.Addr]bool{}
	for _, d := range plan.Decisions {
		if d.Where == announce.Local {
			local[d.IP], moved[d.IP] = d.Address.Link, d.Used
		}
	}
	a.claiming = seen.Agent != nil && seen.Agent.GARP.Enabled
	for ip, one := range a.claims {
		if local[ip] != one.link || seen.Agent == nil {
			delete(a.claims, ip)
		}
	}
	if seen.Agent == nil {
		return next
	}
	for ip, w := range done.added {
		if local[ip] == w.Link {
			a.claims[ip] = claim{link: w.Link, due: schedule(now, seen, moved[ip] && (ip.Is4() || w.NoDAD))}
		}
	}
	// Two had them, as after a split of the segment: whoever learnt the other's
	// hardware address has to hear of ours.
	for _, ip := range done.taken {
		if _, claimed := a.claims[ip]; !claimed && local[ip] != "" {
			a.claims[ip] = claim{link: local[ip], due: schedule(now, seen, true)}
		}
	}
	for _, ip := range a.renamed(plan, done) {
		if _, claimed := a.claims[ip]; !claimed {
			a.claims[ip] = claim{link: local[ip], due: schedule(now, seen, true)}
		}
	}
	a.awaitDetection(now, seen, done)
	for ip, link := range a.claims.take(now) {
		if seen.Agent.GARP.Verify && !has(seen.Node, done, ip, link) {
			continue
		}
		a.send(ctx, ip, link)
	}
	a.reclaim(ctx, now, seen)
	next.next, _ = a.claims.next()
	return next
}

// renamed returns the local addresses that have been here, and to which another
// node has put its name since: it has them too, or had, out of our sight, and
// whoever learnt its hardware address has to hear of ours.
func (a *Agent) renamed(plan announce.Plan, done outcome) (all []netip.Addr) {
	named := map[netip.Addr]string{}
	for _, d := range plan.Decisions {
		if d.Where != announce.Local || d.Named == "" || d.Named == a.Node {
			continue
		}
		named[d.IP] = d.Named
		if _, added := done.added[d.IP]; !added && done.waiting[d.IP].Link == "" && a.named[d.IP] != d.Named {
			all = append(all, d.IP)
		}
	}
	a.named = named
	return all
}

// schedule returns when to claim an address from now on. One that moves here, and
// that the kernel need not examine first, is waited for: then the first time is
// now.
func schedule(now time.Time, seen *observation, moves bool) []time.Time {
	offsets := announce.Schedule(seen.Agent.GARP)
	if moves && len(offsets) > 0 && offsets[0] > 0 {
		offsets = slices.Insert(offsets, 0, 0)
	}
	return moments(now, offsets)
}

// awaitDetection puts off the claims of addresses that the kernel is still
// examining, and begins the schedule of those that it has accepted.
func (a *Agent) awaitDetection(now time.Time, seen *observation, done outcome) {
	if len(a.claims) == 0 {
		return
	}
	examined := map[netip.Addr]bool{}
	for _, f := range seen.Node.Addresses {
		examined[f.Prefix.Addr()] = !f.Tentative
	}
	for ip, one := range a.claims {
		_, just := done.added[ip]
		switch ok, there := examined[ip]; {
		case just:
		case there && !ok, !there && one.waiting:
			a.claims[ip] = claim{link: one.link, waiting: true}
		case one.waiting:
			a.claims[ip] = claim{link: one.link, due: moments(now, announce.Schedule(seen.Agent.GARP))}
		}
	}
}

// moments are the offsets counted from now.
func moments(now time.Time, offsets []time.Duration) []time.Time {
	at := make([]time.Time, len(offsets))
	for i, o := range offsets {
		at[i] = now.Add(o)
	}
	return at
}

// has says whether this node has ip on link, and nobody else was found to have it.
func has(node announce.Node, done outcome, ip netip.Addr, link string) bool {
	_, just := done.added[ip]
	return just || slices.ContainsFunc(node.Addresses, func(a announce.Address) bool {
		return a.Prefix.Addr() == ip && a.Link == link && !a.Failed
	})
}

func (a *Agent) send(ctx context.Context, ip netip.Addr, link string) {
	sent, failed := a.Metrics.garpSent, a.Metrics.garpErrors
	if addr.FamilyOf(ip) == addr.V6 {
		sent, failed = a.Metrics.naSent, a.Metrics.naErrors
	}
	if err := a.Kernel.Claim(ctx, link, ip); err != nil {
		failed.Inc()
		a.Log.WarnContext(ctx, "claimNotSent", "address", ip, "interface", link, "error", err)
		return
	}
	sent.Inc()
}
