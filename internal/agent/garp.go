package agent

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/announce"
)

// sendGARP tells the segments of this node's local addresses that they are here, whenever
// that is due. It returns the time of the next one.
func (a *Agent) sendGARP(ctx context.Context, now time.Time, seen *observation, plan announce.Plan, done outcome) (next todo) {
	a.claiming = seen.Agent != nil && seen.Agent.GARP.Enabled
	if seen.Agent == nil {
		for _, one := range a.addresses {
			one.GARP = announce.GARP{}
		}
		return next
	}
	found := map[place]announce.Address{}
	for _, f := range seen.Node.Addresses {
		found[place{f.Prefix.Addr(), f.Link}] = f
	}
	for ip, d := range locals(plan) {
		a.startGARP(now, seen, d, done)
		one := a.addresses[ip]
		if one == nil || one.GARP.Link == "" {
			continue
		}
		if _, just := done.added[ip]; !just {
			f, there := found[place{ip, one.GARP.Link}]
			one.GARP.Detected(now, seen.Agent.GARP, there, !f.Tentative)
		}
		link := one.GARP.Link
		if one.GARP.Take(now) && (!seen.Agent.GARP.Verify || has(seen.Node, done, ip, link)) {
			a.send(ctx, ip, link)
		}
		next.next = announce.Sooner(next.next, one.GARP.Next())
	}
	a.sendPeriodicGARP(ctx, now, found)
	return next
}

// place is an address on a link. kube-proxy may have the same one on kube-ipvs0.
type place struct {
	ip   netip.Addr
	link string
}

// locals are the decisions on local addresses that belong here.
func locals(plan announce.Plan) map[netip.Addr]*announce.Decision {
	all := map[netip.Addr]*announce.Decision{}
	for i := range plan.Decisions {
		if d := &plan.Decisions[i]; d.Where == announce.Local {
			all[d.IP] = d
		}
	}
	return all
}

// startGARP begins the times of the address of d if clients have to hear of it now, and ends
// those of another link.
func (a *Agent) startGARP(now time.Time, seen *observation, d *announce.Decision, done outcome) {
	link, named := d.Address.Link, a.nameChanged(d, done)
	start := func(atOnce bool) {
		a.addresses.Of(d.IP).GARP = announce.StartGARP(now, link, seen.Agent.GARP, atOnce)
	}
	one := a.addresses[d.IP]
	if one != nil && one.GARP.Link != link {
		one.GARP = announce.GARP{}
	}
	w, added := done.added[d.IP]
	switch {
	case added && w.Link == link:
		// The kernel need not examine it first.
		start(d.Used && (d.IP.Is4() || w.NoDAD))
	case one != nil && one.GARP.Link != "":
	case named, done.taken[d.IP]:
		// Another node had it too, as after a split of the segment: clients that
		// learnt the hardware address of that node have to hear of ours.
		start(true)
	}
}

// nameChanged says whether another node has put its name to an address that has been here:
// it has the address too, or had, out of our sight.
func (a *Agent) nameChanged(d *announce.Decision, done outcome) bool {
	one := a.addresses[d.IP]
	if d.Named == "" || d.Named == a.Node {
		if one != nil {
			one.Named = ""
		}
		return false
	}
	one = a.addresses.Of(d.IP)
	changed := one.Named != d.Named
	one.Named = d.Named
	_, added := done.added[d.IP]
	_, waiting := done.waiting[d.IP]
	return changed && !added && !waiting
}

// sendPeriodicGARP claims the addresses that were not claimed for long. No pass is made for
// any of them.
func (a *Agent) sendPeriodicGARP(ctx context.Context, now time.Time, found map[place]announce.Address) {
	if !a.claiming {
		for _, one := range a.addresses {
			one.Periodic = time.Time{}
		}
		return
	}
	for ip, link := range a.held.read() {
		one := a.addresses.Of(ip)
		var due bool
		one.Periodic, due = announce.NextPeriodicGARP(now, one.Periodic, ip)
		if f := found[place{ip, link}]; due && !f.Tentative && !f.Failed {
			a.send(ctx, ip, link)
		}
	}
}

// has says whether this node has ip on link, and no other machine was found to have it.
func has(node announce.Node, done outcome, ip netip.Addr, link string) bool {
	_, just := done.added[ip]
	return just || slices.ContainsFunc(node.Addresses, func(a announce.Address) bool {
		return a.Prefix.Addr() == ip && a.Link == link && !a.Failed
	})
}

// send claims ip on the segment of link once.
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
