package peering

import (
	"net/netip"
	"slices"
)

// crowd is a set of neighbors: networks that do not overlap, and interfaces of unnumbered
// neighbors.
type crowd struct {
	networks   []netip.Prefix
	interfaces []string
}

// host returns the crowd with one address.
func host(a netip.Addr) crowd {
	a = a.WithZone("")
	return crowd{networks: []netip.Prefix{netip.PrefixFrom(a, a.BitLen())}}
}

func (c crowd) empty() bool { return len(c.networks) == 0 && len(c.interfaces) == 0 }

// plus returns the union of c and d.
func (c crowd) plus(d crowd) crowd {
	sum := c.without(d)
	return crowd{append(sum.networks, d.networks...), append(sum.interfaces, d.interfaces...)}
}

// without returns the neighbors in c that are not in d.
func (c crowd) without(d crowd) crowd {
	rest := crowd{networks: slices.Clone(c.networks)}
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
func (c crowd) in(d crowd) crowd { return c.without(c.without(d)) }

// remainder returns the rest of a network without another network: halves of it, halves of
// its halves and so on.
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

// list returns the crowd as the sorted elements of a neighbor set.
func (c crowd) list() []string {
	slices.SortFunc(c.networks, comparePrefixes)
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

// crowdOf returns the crowd for the elements of a neighbor set.
func crowdOf(list []string) crowd {
	var c crowd
	for _, text := range list {
		if p, ok := neighborPrefix(text); ok {
			c = c.plus(crowd{networks: []netip.Prefix{p}})
		}
	}
	return c
}
