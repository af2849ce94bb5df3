package peering

import (
	"net/netip"
	"slices"
)

// neighborSet is a set of neighbors: networks that do not overlap, and interfaces of unnumbered
// neighbors.
type neighborSet struct {
	networks   []netip.Prefix
	interfaces []string
}

// host returns the set with one address.
func host(a netip.Addr) neighborSet {
	a = a.WithZone("")
	return neighborSet{networks: []netip.Prefix{netip.PrefixFrom(a, a.BitLen())}}
}

func (c neighborSet) empty() bool { return len(c.networks) == 0 && len(c.interfaces) == 0 }

// plus returns the union of c and d.
func (c neighborSet) plus(d neighborSet) neighborSet {
	sum := c.without(d)
	return neighborSet{append(sum.networks, d.networks...), append(sum.interfaces, d.interfaces...)}
}

// without returns the neighbors in c that are not in d.
func (c neighborSet) without(d neighborSet) neighborSet {
	rest := neighborSet{networks: slices.Clone(c.networks)}
	for _, away := range d.networks {
		var left []netip.Prefix
		for _, n := range rest.networks {
			left = append(left, remainder(n, away)...)
		}
		rest.networks = left
	}
	for _, name := range c.interfaces {
		if !slices.Contains(d.interfaces, name) {
			rest.interfaces = append(rest.interfaces, name)
		}
	}
	return rest
}

// in returns the intersection of c and d.
func (c neighborSet) in(d neighborSet) neighborSet { return c.without(c.without(d)) }

// remainder returns the part of n outside of away, as networks: a half of n, a quarter of n, and so
// on.
func remainder(n, away netip.Prefix) []netip.Prefix {
	if !n.Overlaps(away) {
		return []netip.Prefix{n}
	}
	if away.Bits() <= n.Bits() {
		return nil
	}
	low, high := halves(n)
	return append(remainder(low, away), remainder(high, away)...)
}

// halves returns the two halves of a network.
func halves(n netip.Prefix) (low, high netip.Prefix) {
	bytes := n.Addr().AsSlice()
	bytes[n.Bits()/8] |= 0x80 >> (n.Bits() % 8)
	second, _ := netip.AddrFromSlice(bytes)
	return netip.PrefixFrom(n.Addr(), n.Bits()+1), netip.PrefixFrom(second, n.Bits()+1)
}

// list returns the set as the sorted elements of a Set of neighbors.
func (c neighborSet) list() []string {
	slices.SortFunc(c.networks, netip.Prefix.Compare)
	slices.Sort(c.interfaces)
	var all []string
	for _, n := range c.networks {
		all = append(all, n.String())
	}
	for _, name := range c.interfaces {
		all = append(all, "%"+name)
	}
	return all
}

// neighborSetOf returns the set for the elements of a Set of neighbors.
func neighborSetOf(list []string) neighborSet {
	var c neighborSet
	for _, text := range list {
		if p, ok := neighborPrefix(text); ok {
			c = c.plus(neighborSet{networks: []netip.Prefix{p}})
		}
	}
	return c
}
