package selection

import (
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/pool"
)

// fits reports whether the Service would get an address of the pool of a today.
// What its group is called, or which of its addresses are free now, does not
// matter.
func (m *matter) fits(a netip.Addr) bool {
	g, p, ok := m.Config.GroupOf(a)
	return ok && m.offers(p, a) && m.mayHave(g, a) && m.rightful(a)
}

// offers reports whether a, which is in p, is one that p gives away.
func (m *matter) offers(p pool.Pool, a netip.Addr) bool {
	_, excluded := p.Excludes(a)
	_, blocked := m.Book.Blocked(a)
	return !p.Draining && !excluded && !blocked
}

// mayHave reports whether g, which has a, is a group for the Service.
func (m *matter) mayHave(g config.Group, a netip.Addr) bool {
	if slices.Contains(m.r.Asked, a) {
		return m.denied(g) == nil
	}
	return among(m.candidates(addr.FamilyOf(a)).groups, g)
}

// rightful reports whether the Service has a for itself, or shares it as the
// rules are: of those who share what they should not, the first has the right.
func (m *matter) rightful(a netip.Addr) bool {
	for _, c := range m.Book.Collisions(m.me) {
		if c.Addr == a {
			return false
		}
	}
	first, taken := m.Book.Owner(a)
	if !taken || first == m.me {
		return true
	}
	return slices.Contains(m.booked, a) && (m.Wide(a) || !slices.ContainsFunc(m.Book.Owners(a), m.foreign))
}

// foreign reports whether o is of another namespace than the Service.
func (m *matter) foreign(o pool.Owner) bool { return o.Namespace() != m.r.Namespace }

// spare reports whether a is one more than the Service would get beside others.
func (m *matter) spare(a netip.Addr, others []netip.Addr) bool {
	family := ofFamily(others, addr.FamilyOf(a))
	if g, p, ok := m.Config.GroupOf(a); ok && m.multi(g) {
		return slices.ContainsFunc(family, p.Contains)
	}
	return len(family) > 0
}
