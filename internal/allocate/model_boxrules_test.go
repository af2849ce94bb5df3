package allocate

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/service"
)

// This file has the checks of the addresses that the backend of the model gives.

// fromBox reports whether only the backend can have given ip. Such an address is never in a
// pool.
func (m *model) fromBox(ip netip.Addr) bool {
	return netip.MustParsePrefix("100.64.0.0/16").Contains(ip) || netip.MustParsePrefix("2001:db8:64::/48").Contains(ip)
}

// checkGranted fails if a Service gets an address that the backend holds for no key and has
// not lost.
func (m *model) checkGranted(who ipam.Owner, fresh []netip.Addr) {
	for _, ip := range fresh {
		if m.fromBox(ip) && m.box.holderOf(ip) == nil && !m.box.forgotten[ip] {
			m.t.Fatalf("%s gets %s, which the backend did not grant", who, ip)
		}
		if m.fromBox(ip) {
			m.boxed[who] = append(m.boxed[who], ip)
		}
	}
}

// checkStays fails if a Service loses an address of the backend, although the Service shows
// it and does not ask for a replacement. An address that another controller wrote does not
// count: the allocator may have started while the Service did not show it.
func (m *model) checkStays(r service.Request, now []netip.Addr) {
	for _, ip := range addr.Without(addr.Without(r.Shown, now), m.foreign[owner(r)]) {
		asks := slices.ContainsFunc(r.Asked, func(a netip.Addr) bool { return a != ip && addr.FamilyOf(a) == addr.FamilyOf(ip) })
		if slices.Contains(m.boxed[owner(r)], ip) && slices.Contains(m.given[owner(r)], ip) && r.Wants(addr.FamilyOf(ip)) && !r.Reevaluate && !asks {
			m.t.Fatalf("%s loses %s, which the backend granted, and gets %s", r.Key(), ip, now)
		}
	}
}

// checkBackend checks the rules of backends that hold at any time.
func (m *model) checkBackend() {
	m.checkAnnounced()
	m.checkQueued()
	m.checkReturned()
}

// checkQueued fails if a holder has work that the worker does not know of.
func (m *model) checkQueued() {
	b := m.box
	for _, h := range m.allocations.Pending("box") {
		if !slices.Contains(b.due, h) && !slices.Contains(b.failed, h) && !b.busy(h) {
			m.t.Fatalf("%s has work, and the worker does not know of it", h.Name)
		}
	}
}

// checkReturned fails if a Service has an address that a request in flight takes away from it.
func (m *model) checkReturned() {
	for _, c := range m.box.calls {
		for i, g := range c.grants {
			if _, done := c.done[i]; !done {
				m.checkRelease(g)
			}
		}
	}
}

// checkUnbound fails if the backend holds an address for svc, which has no finalizer any more. A former worker
// may have claimed an address when the Service asked for something else: everything in the group
// must go if the Service would claim from it now, and what a deleted one asked for before it was left is not known.
func (m *model) checkUnbound(svc *corev1.Service) {
	r := m.read(svc)
	leaves := r.Leaving && svc.DeletionTimestamp == nil && r.Group == "box" && len(r.Asked) == 0
	departs := m.allocations.of(owner(r)).departs && m.dismissed[owner(r)]
	for _, g := range m.box.grants {
		_, held := m.allocations.cluster.Store.Holder(g.ip)
		if ipam.OwnerOf(g.key) == owner(r) && !g.late && !g.lost && !held && !m.isOwned(g) && (g.starts == m.box.starts || (leaves || departs) && !m.keyed[owner(r)]) {
			m.t.Fatalf("%s ends, and the backend holds %s for %s", r.Key(), g.ip, g.key)
		}
	}
}

// checkDeparted fails if a Service is still kept although the backend has answered everything.
func (m *model) checkDeparted() {
	for who, svc := range m.live {
		if svc.DeletionTimestamp != nil {
			m.t.Fatalf("%s is not deleted: the finalizer waits for %v", who, m.allocations.claimed(m.read(svc)))
		}
	}
}

// checkAnnounced fails if agents announce an address that was given back to the backend.
func (m *model) checkAnnounced() {
	for who, svc := range m.live {
		announced, _ := announce.Read(svc)
		for _, ip := range announced.Addresses {
			if m.fromBox(ip) && slices.Contains(m.boxed[who], ip) && m.box.holderOf(ip) == nil && !m.box.forgotten[ip] {
				m.t.Fatalf("agents announce %s for %s after its release", ip, who)
			}
		}
	}
}

// checkRelease fails if a release of g takes away an address that a Service has or gets.
func (m *model) checkRelease(g ipam.Grant) {
	for _, has := range m.box.named(g) {
		if m.isDoubled(has) {
			continue
		}
		for _, who := range m.allocations.cluster.Store.Holders(has.ip) {
			others := !g.Address.IsValid() && ipam.OwnerOf(g.Key) != who // the backend granted it twice
			if slices.Contains(m.boxed[who], has.ip) && !slices.Contains(m.foreign[who], has.ip) && !others {
				m.t.Fatalf("%s (%s) is released, but %s has it", has.ip, has.key, who)
			}
		}
	}
}

// checkBox checks the rules that hold after the backend has answered everything and the sweep has
// run. The backend may
// not know the address of a Service with a sharing key: Services that agree on a key after they got
// their addresses have one claim for several addresses.
func (m *model) checkBox() {
	for _, g := range m.box.grants {
		if m.isOwned(g) {
			continue
		}
		if m.box.starts == g.starts && !g.late && !g.lost {
			m.t.Fatalf("the backend holds %s for %s, and no Service has it or waits for it", g.ip, g.key)
		}
		if !m.box.orphans[boxHold(ipam.Grant{Key: g.key, Address: g.ip})] {
			m.t.Fatalf("the sweep does not count %s, which the backend holds for %s", g.ip, g.key)
		}
	}
	for who, svc := range m.live {
		r := m.allocations.judged(m.read(svc))
		if svc.Spec.Type != corev1.ServiceTypeLoadBalancer || r.Owner == service.Anothers {
			continue
		}
		for _, ip := range r.Held {
			if m.fromBox(ip) && slices.Contains(m.boxed[who], ip) && strings.Contains(r.From, "box") && m.box.holderOf(ip) == nil && !m.box.refused[ip] &&
				r.SharingKey == "" && !m.awaitsAnother(r, addr.FamilyOf(ip)) {
				m.t.Fatalf("%s has %s, but the backend has no grant for it", who, ip)
			}
		}
		m.checkGivesAll(r)
	}
}

// awaitsAnother reports whether the Service of r asks for a replacement of its address of
// family f while the backend has no other. The claim of the Service is then for the
// replacement, so its present address is not registered.
func (m *model) awaitsAnother(r service.Request, f addr.Family) bool {
	granted := m.box.find(func(g *boxGrant) bool { return g.key == boxKey(r, f) })
	return r.Reevaluate && granted == nil && len(m.box.free(f)) == 0
}

// isOwned reports whether a Service has, or waits for, the address of g.
func (m *model) isOwned(g *boxGrant) bool {
	for _, svc := range m.live {
		r := m.allocations.judged(m.read(svc))
		switch {
		case svc.Spec.Type != corev1.ServiceTypeLoadBalancer:
		case slices.Contains(r.Held, g.ip):
			return true
		case r.Owner != service.Anothers && m.waitsFor(r, g):
			return true
		}
	}
	return false
}

// waitsFor reports whether the Service of r waits for an address from the backend, and g
// answers its claim.
func (m *model) waitsFor(r service.Request, g *boxGrant) bool {
	named, known := m.meant(r.Group)
	if r.Group != "" && (!known || named.Ref() != "box") && !slices.Contains(r.Asked, g.ip) {
		return false
	}
	return slices.ContainsFunc(r.Families, func(f addr.Family) bool {
		lacks := !slices.ContainsFunc(r.Held, func(ip netip.Addr) bool { return addr.FamilyOf(ip) == f })
		return boxKey(r, f) == g.key && (lacks || r.Reevaluate || len(r.Asked) > 0)
	})
}

func boxKey(r service.Request, f addr.Family) string {
	return ipam.KeyOf(clusterName, ipam.Claim{Group: "box", Service: r.Key(), SharingKey: r.SharingKey, Family: f})
}

// checkGivesAll fails if a Service waits for the backend although the backend has an
// address for it.
func (m *model) checkGivesAll(r service.Request) {
	g, known := m.meant(r.Group)
	if !known || g.Ref() != "box" || !m.permits(g, r.Namespace) || len(r.Held)+len(r.Asked) > 0 || len(r.Families) != 1 ||
		r.SharingKey != "" || r.Leaving || r.Malformed != "" {
		return
	}
	f := r.Families[0]
	has := m.box.find(func(g *boxGrant) bool { return g.key == boxKey(r, f) })
	switch {
	case has == nil && len(m.box.free(f)) > 0:
		m.t.Fatalf("%s waits for the backend, which could grant one of %s", r.Key(), m.box.free(f))
	case has != nil && !m.isDoubled(has) && m.isGood(has.ip, f):
		m.t.Fatalf("%s waits for the backend, which granted %s to it", r.Key(), has.ip)
	}
}

// isDoubled reports whether the backend granted the address of g twice.
func (m *model) isDoubled(g *boxGrant) bool {
	return m.box.find(func(other *boxGrant) bool { return other != g && other.ip == g.ip }) != nil
}

// isGood reports whether a Service can have ip from the backend.
func (m *model) isGood(ip netip.Addr, f addr.Family) bool {
	store := m.allocations.cluster.Store
	return m.fromBox(ip) && addr.FamilyOf(ip) == f && m.blocked[ip] == "" && len(store.Holders(ip)) == 0 && len(store.Contenders(ip)) == 0
}
