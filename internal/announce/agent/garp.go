package agent

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/announce"
)

// sendGARP announces this node's local addresses on their segments when that is due. It
// returns the time of the next announcement.
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
	changed := a.changedMACs(seen.Node)
	for ip, d := range plan.Locals() {
		a.startGARP(now, seen, d, done, changed[d.Address.Link])
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

// startGARP starts the announcements of the address of d if clients must learn of it now. It ends
// the announcements of that address on another link. newMAC says that the link has another Ethernet
// address since the last pass.
func (a *Agent) startGARP(now time.Time, seen *observation, d *announce.Decision, done outcome, newMAC bool) {
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
		// The kernel need not check for duplicates first.
		start(d.Used && (d.IP.Is4() || w.NoDAD))
	case one != nil && one.GARP.Link != "":
	case named, done.taken[d.IP], newMAC && a.held.read()[d.IP] == link:
		// Another node had the address too, as after a split of the segment. Clients that
		// learned the hardware address of that node must learn ours. The same is true of our
		// own old one.
		start(true)
	}
}

// changedMACs returns the links that have another Ethernet address than in the last pass. By default
// the kernel does not tell the neighbors (arp_notify, ndisc_notify).
func (a *Agent) changedMACs(node announce.Node) map[string]bool {
	changed, macs := map[string]bool{}, make(map[string][6]byte, len(node.Links))
	for _, l := range node.Links {
		before, known := a.macs[l.Name]
		changed[l.Name], macs[l.Name] = known && before != l.MAC, l.MAC
	}
	a.macs = macs
	return changed
}

// nameChanged reports whether another node put its name into the slot of an address that
// stayed here: that node has the address too, or had it while this node could not see it.
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

// sendPeriodicGARP announces the addresses that were not announced for a long time. These
// announcements cause no pass of the loop.
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

// has reports whether this node has ip on link, and no other machine was found to have it.
func has(node announce.Node, done outcome, ip netip.Addr, link string) bool {
	_, just := done.added[ip]
	return just || slices.ContainsFunc(node.Addresses, func(a announce.Address) bool {
		return a.Prefix.Addr() == ip && a.Link == link && !a.Failed
	})
}

// send announces ip once on the segment of link.
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
