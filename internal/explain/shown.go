package explain

import (
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/addr"
)

// rangeSet is a set of addresses, as sorted ranges without overlap. A node announces
// thousands of routes.
type rangeSet []addr.Range

func rangeSetOf(ranges []addr.Range) rangeSet {
	ranges = slices.SortedFunc(slices.Values(ranges), func(a, b addr.Range) int { return a.From.Compare(b.From) })
	var set rangeSet
	for _, r := range ranges {
		if last := len(set) - 1; last >= 0 && r.From.Compare(set[last].To) <= 0 {
			if r.To.Compare(set[last].To) > 0 {
				set[last].To = r.To
			}
			continue
		}
		set = append(set, r)
	}
	return set
}

func (s rangeSet) contain(a netip.Addr) bool {
	i, found := slices.BinarySearchFunc(s, a, func(r addr.Range, a netip.Addr) int { return r.From.Compare(a) })
	return found || i > 0 && a.Compare(s[i-1].To) <= 0
}

// shownAddress is an address that a Service shows.
type shownAddress struct {
	addr netip.Addr
	key  string
}

// shownAddresses are sorted by their address.
type shownAddresses []shownAddress

// shown returns the addresses that Services show.
func (v *view) shown() shownAddresses {
	var all shownAddresses
	for _, r := range v.plan.Requests {
		for _, a := range r.Shown {
			all = append(all, shownAddress{a, r.Key()})
		}
	}
	slices.SortStableFunc(all, func(a, b shownAddress) int { return a.addr.Compare(b.addr) })
	return all
}

// in returns the Services that show an address of p, each once.
func (s shownAddresses) in(p netip.Prefix) []string {
	keys, seen := []string{}, map[string]bool{}
	i, _ := slices.BinarySearchFunc(s, p.Masked().Addr(), func(one shownAddress, a netip.Addr) int { return one.addr.Compare(a) })
	for ; i < len(s) && p.Contains(s[i].addr); i++ {
		if !seen[s[i].key] {
			seen[s[i].key] = true
			keys = append(keys, s[i].key)
		}
	}
	return keys
}
