package peering

import (
	"net/netip"
	"slices"
)

// neighborSet is a set of neighbors: their addresses, and the interfaces of unnumbered neighbors.
type neighborSet struct {
	addresses  []netip.Addr
	interfaces []string
}

// host returns the set with one address.
func host(a netip.Addr) neighborSet { return neighborSet{addresses: []netip.Addr{a.WithZone("")}} }

func (c neighborSet) empty() bool { return len(c.addresses) == 0 && len(c.interfaces) == 0 }

// plus returns the union of c and d.
func (c neighborSet) plus(d neighborSet) neighborSet {
	sum := c.without(d)
	return neighborSet{append(sum.addresses, d.addresses...), append(sum.interfaces, d.interfaces...)}
}

// without returns the neighbors in c that are not in d.
func (c neighborSet) without(d neighborSet) neighborSet {
	return neighborSet{
		addresses:  slices.DeleteFunc(slices.Clone(c.addresses), func(a netip.Addr) bool { return slices.Contains(d.addresses, a) }),
		interfaces: slices.DeleteFunc(slices.Clone(c.interfaces), func(name string) bool { return slices.Contains(d.interfaces, name) }),
	}
}

// in returns the intersection of c and d.
func (c neighborSet) in(d neighborSet) neighborSet { return c.without(c.without(d)) }

// list returns the set as the sorted elements of a Set of neighbors.
func (c neighborSet) list() []string {
	slices.SortFunc(c.addresses, netip.Addr.Compare)
	slices.Sort(c.interfaces)
	var all []string
	for _, a := range c.addresses {
		all = append(all, netip.PrefixFrom(a, a.BitLen()).String())
	}
	for _, name := range c.interfaces {
		all = append(all, "%"+name)
	}
	return all
}

// neighborSetOf returns the set of the addresses in a Set of neighbors.
func neighborSetOf(list []string) neighborSet {
	var c neighborSet
	for _, text := range list {
		if p, err := netip.ParsePrefix(text); err == nil {
			c = c.plus(host(p.Addr()))
		}
	}
	return c
}
