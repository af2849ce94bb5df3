package ipam

import (
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/groups"
)

// Cluster is everything that a choice depends on, except the Service.
type Cluster struct {
	Groups groups.Groups
	// Store says which Service holds which address, under which terms. It may already have
	// addresses that were chosen but are not in the status of the Service yet.
	Store *Store
	// Claims say what backends hold for Services. It is nil in a cluster without backends.
	Claims *Claims
	// Subnets are the networks in which nodes announce local addresses.
	Subnets []netip.Prefix
	// Boundaries say which groups are for which namespaces. The zero value knows no
	// namespace.
	Boundaries Boundaries
}

// Wide reports whether Services of different namespaces may share a.
func (c Cluster) Wide(a netip.Addr) bool {
	g, _, ok := c.GroupOf(a)
	return ok && g.SharedAcrossNamespaces
}

// Refuses returns the reason why owner cannot have a, or nil. The status of owner does not have a
// yet. There are two reasons. Another Service holds a or contends for it. Or owner holds a, but its
// terms have changed, and another Service has the key or the port that it wants now.
func (c Cluster) Refuses(a netip.Addr, owner Owner) error { return c.Store.bars(a, owner, c.Wide(a)) }

// Need is what a Service waits for. There are three kinds: a free address of a family in a group; a
// change of a certain address; or a change of an address that Services share by a key.
type Need struct {
	Group  string
	Family addr.Family
	// Addr is an address that the Service asks for, or an address on which its terms are not in
	// effect.
	Addr netip.Addr
	// SharingKey is the key of Services that share an address, and Namespace is their
	// namespace. Namespace is "" if Services of all namespaces may share the address.
	SharingKey, Namespace string
}

// needs returns what the Service waits for: what the refusal names, and a free address of
// each pool of its group from which it has none. A Service with a sharing key also waits
// for an address that it may share.
func (c *chooser) needs(d decision) []Need {
	var needs []Need
	if d.refusal != nil {
		needs = d.refusal.needs
	}
	needs = slices.Concat(needs, c.growing(d.lasting))
	for _, a := range c.stranded(d.addresses) {
		needs = append(needs, Need{Addr: a})
	}
	if c.r.SharingKey != "" && len(needs)+len(c.claims) > 0 {
		needs = append(needs, Need{SharingKey: c.r.SharingKey}, Need{SharingKey: c.r.SharingKey, Namespace: c.r.Namespace})
	}
	return distinct(needs)
}

// growing returns the needs of a Service that has these addresses and gets one address of
// every pool.
func (c *chooser) growing(addresses []netip.Addr) []Need {
	home, clash := c.home(addresses)
	if c.r.Leaving || home == nil || clash != nil || c.denied(*home) != nil {
		return nil
	}
	var needs []Need
	for _, f := range c.r.Families {
		if _, asks := c.asked(f); asks || len(ofFamily(addresses, f)) == 0 {
			continue
		}
		for _, p := range untouched(*home, f, addresses) {
			if !p.Draining && !c.homeless(*home, p) {
				needs = append(needs, Need{Group: home.Ref(), Family: f})
			}
		}
	}
	return needs
}

// distinct returns all without repetitions, in their order.
func distinct[T comparable](all []T) []T {
	var once []T
	for _, x := range all {
		if !slices.Contains(once, x) {
			once = append(once, x)
		}
	}
	return once
}

// Meets returns the needs that a may satisfy now.
func (c Cluster) Meets(a netip.Addr) []Need {
	needs := []Need{{Addr: a}}
	g, p, grouped := c.GroupOf(a)
	switch first, key, held := c.Store.Use(a); {
	case held && key == "" || !held && (!grouped || !c.offers(p, a, "")):
	case !held:
		needs = append(needs, Need{Group: g.Ref(), Family: p.Family()})
	case g.SharedAcrossNamespaces:
		needs = append(needs, Need{SharingKey: key})
	default:
		needs = append(needs, Need{SharingKey: key, Namespace: first.Namespace()})
	}
	return needs
}

// offers reports whether p hands out a to by.
func (c Cluster) offers(p groups.Pool, a netip.Addr, by Owner) bool {
	_, withheld := c.Store.Withheld(a, by)
	return !withheld && !p.Draining && p.HandsOut(a)
}
