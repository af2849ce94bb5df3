package ipam

import (
	"fmt"
	"net/netip"
	"slices"
)

// kube-proxy takes the traffic for an address in spec.externalIPs on every node, for the Service that
// lists the address. If PureLB gave the address to another Service, kube-proxy would send the traffic
// to only one of the two. So a listed address is given only to a Service that lists it, and only if
// that Service asks for it: this is how a Service moves from spec.externalIPs to PureLB. Services with
// the same sharing key may all list it. A Service that has the address already keeps it.

// List notes that by has exactly these addresses in spec.externalIPs. The condition of a Service that
// has one of them mentions that, and other Services may wait for one that is listed no longer.
func (s *Store) List(by Owner, addresses []netip.Addr) {
	if len(addresses)+len(s.listed[by]) == 0 {
		return
	}
	var changed []netip.Addr
	now := slices.Clone(addresses)
	for i, a := range now {
		now[i] = plain(a)
	}
	now = distinct(now)
	for _, a := range s.listed[by] {
		if !slices.Contains(now, a) {
			changed = append(changed, a)
			drop(s.listers, a, by)
		}
	}
	for _, a := range now {
		if !slices.Contains(s.listed[by], a) {
			changed = append(changed, a)
			s.listers[a] = append(s.listers[a], by)
		}
	}
	if s.listed[by] = now; len(now) == 0 {
		delete(s.listed, by)
	}
	for r := range s.spans {
		if slices.ContainsFunc(changed, r.Contains) {
			delete(s.spans, r) // the next question counts it again
		}
	}
	for _, a := range changed {
		s.Touch(a, s.Holders(a)...)
	}
}

// Lister returns the first Service that has a in spec.externalIPs and thereby keeps by from it, if
// there is one. A Service of the same namespace and sharing key does not.
func (s *Store) Lister(a netip.Addr, by Owner) (Owner, bool) {
	key := s.terms[by].Key
	return firstOf(s.listers[plain(a)], func(o Owner) bool {
		return o != by && (key == "" || s.terms[o].Key != key || o.Namespace() != by.Namespace())
	})
}

// Withheld returns the reason why the Store does not hand out a to by, although by might be its only
// holder, if there is one.
func (s *Store) Withheld(a netip.Addr, by Owner) (reason string, ok bool) {
	if reason, ok = s.Blocked(a); ok {
		return reason, true
	}
	if lister, listed := s.Lister(a, by); listed {
		return "in spec.externalIPs of " + string(lister), true
	}
	return "", false
}

// listedElsewhere refuses a, which the Service asks for, if another Service has it in
// spec.externalIPs.
func (c *chooser) listedElsewhere(a netip.Addr) *Refusal {
	lister, listed := c.Store.Lister(a, c.me)
	if !listed {
		return nil
	}
	return &Refusal{Metric: metricOther, Pool: noPool, Reason: ReasonInUse, needs: []Need{{Addr: a}}, Message: fmt.Sprintf(
		"%s was asked for, but it is in spec.externalIPs of %s; remove it there, or ask for another address", a, lister)}
}
