package selection

import (
	"cmp"
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/pool"
)

// give returns what the Service gets of family f from g: one address, or one of
// every pool.
func (m *matter) give(g *config.Group, f addr.Family) []netip.Addr {
	if m.multi(*g) {
		return m.everyPool(*g, f, nil)
	}
	for _, p := range m.poolsOf(*g, f) {
		if a, ok := m.next(p); ok {
			return []netip.Addr{a}
		}
	}
	return nil
}

// poolsOf returns the pools of g that have addresses of family f, in the order in
// which they are tried. What was chosen for this Service already does not count
// as in use, so that it is chosen again.
func (m *matter) poolsOf(g config.Group, f addr.Family) []pool.Pool {
	pools := slices.DeleteFunc(slices.Clone(g.Pools), func(p pool.Pool) bool { return p.Family() != f })
	if !m.balances(g) || len(pools) < 2 {
		return pools
	}
	used := func(p pool.Pool) (n int64) {
		n = m.Book.InUse(p)
		for _, a := range m.pending(p) {
			if p.Contains(a) {
				n--
			}
		}
		return n
	}
	slices.SortStableFunc(pools, func(p, q pool.Pool) int { return cmp.Compare(used(p), used(q)) })
	return pools
}

// balances reports whether the pools of g are to be used evenly. Those who share
// addresses want the same one, wherever it is.
func (m *matter) balances(g config.Group) bool { return g.BalancePools && m.r.SharingKey == "" }

// next returns an address of p: one that was chosen for the Service before and
// is not written yet, or else the lowest that is free.
func (m *matter) next(p pool.Pool) (netip.Addr, bool) {
	for _, a := range m.pending(p) {
		if m.offers(p, a) {
			return a, true
		}
	}
	return m.Book.Next(p)
}

// pending returns the addresses of p that are held for the Service, and are not
// what it has.
func (m *matter) pending(p pool.Pool) []netip.Addr {
	var pending []netip.Addr
	for _, a := range m.booked {
		if p.Contains(a) && !slices.Contains(m.kept, a) {
			pending = append(pending, a)
		}
	}
	return pending
}
