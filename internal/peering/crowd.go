package peering

import (
	"net/netip"
	"slices"
)

// crowd is some neighbours: networks that do not overlap, and interfaces of
// unnumbered ones.
type crowd struct {
	networks   []netip.Prefix
	interfaces []string
}

// host is the crowd of one address.
func host(a netip.Addr) crowd {
	a = a.WithZone("")
	return crowd{networks: []netip.Prefix{netip.PrefixFrom(a, a.BitLen())}}
}

func (c crowd) empty() bool { return len(c.networks) == 0 && len(c.interfaces) == 0 }

// plus is who is in one of them.
func (c crowd) plus(d crowd) crowd {
	sum := c.without(d)
	return crowd{append(sum.networks, d.networks...), append(sum.interfaces, d.interfaces...)}
}

// without is who is in c and not in d.
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

// in is who is in c and in d.
func (c crowd) in(d crowd) crowd { return c.without(c.without(d)) }

// remainder is what is left of a network without another: halves of it, of
// halves of it and so on.
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

// halves are the two networks that one consists of.
func halves(n netip.Prefix) (low, high netip.Prefix) {
	bytes := n.Addr().AsSlice()
	bytes[n.Bits()/8] |= 0x80 >> (n.Bits() % 8)
	second, _ := netip.AddrFromSlice(bytes)
	return netip.PrefixFrom(n.Addr(), n.Bits()+1), netip.PrefixFrom(second, n.Bits()+1)
}

// list is the crowd as the elements of a set of neighbours, sorted.
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

// crowdOf is the crowd of the elements of a set of neighbours.
func crowdOf(list []string) crowd {
	var c crowd
	for _, text := range list {
		if p, ok := neighborPrefix(text); ok {
			c = c.plus(crowd{networks: []netip.Prefix{p}})
		}
	}
	return c
}
