package selection

import (
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/pool"
	"purelb.io/purelb/internal/service"
)

// matter is the Service that is being decided about, with what it has.
type matter struct {
	Cluster
	r  service.Request
	me pool.Owner
	// booked is what it holds in the Book and may have, and kept what it has.
	booked, kept []netip.Addr
	// lasting is what it is to have, but for what is to be replaced.
	lasting []netip.Addr
	// unfit says that it keeps something that was to be replaced.
	unfit bool
}

func newMatter(c Cluster, r service.Request) *matter {
	m := &matter{Cluster: c, r: r, me: pool.Owner(r.Key())}
	m.booked = slices.DeleteFunc(c.Book.Held(m.me), m.outgrown)
	m.keep()
	m.narrow(m.kept)
	m.narrow(m.r.Asked)
	return m
}

// outgrown reports whether a, which is held for the Service, is one that it does
// not show yet and may not have any more: it wants something else now than when a
// was chosen.
func (m *matter) outgrown(a netip.Addr) bool {
	return !slices.Contains(m.r.Held, a) && m.refuses(a) != nil
}

// refuses says what keeps the Service from a, or nil.
func (m *matter) refuses(a netip.Addr) error {
	if slices.Contains(m.r.Held, a) {
		return m.Book.Refuses(a, m.me, m.Wide(a))
	}
	return m.Refuses(a, m.me)
}

// settle returns the addresses that the Service is to have, in order, and why
// these are not all that it wants.
func (m *matter) settle() ([]netip.Addr, *Refusal) {
	if m.r.Leaving {
		return m.assemble(m.kept, nil), nil
	}
	good := m.kept
	var fresh []netip.Addr
	refusals := m.malformed()
	m.unfit = len(refusals) > 0
	if !m.unfit {
		good = m.good()
		fresh, refusals = m.fill(good)
		more, refusal := m.grow(good)
		fresh, refusals = append(fresh, more...), append(refusals, refusal...)
	}
	addresses := m.assemble(good, fresh)
	m.lasting = slices.DeleteFunc(slices.Clone(addresses), func(a netip.Addr) bool {
		return slices.Contains(m.kept, a) && !slices.Contains(good, a)
	})
	m.unfit = m.unfit || len(m.lasting) < len(addresses)
	m.narrow(addresses)
	return addresses, merge(append(refusals, m.collisions(addresses)...))
}

// assemble returns good and fresh in the order of the families wanted. A family
// without any keeps what it has. What the Service does not show yet comes last,
// sorted as it is in the Book: so it is in the same order when it is chosen again
// before it is written.
func (m *matter) assemble(good, fresh []netip.Addr) []netip.Addr {
	var addresses []netip.Addr
	for _, f := range m.r.Families {
		these := append(ofFamily(good, f), ofFamily(fresh, f)...)
		if len(these) == 0 {
			these = ofFamily(m.kept, f)
		}
		unshown := m.unshown(these)
		slices.SortFunc(unshown, netip.Addr.Compare)
		these = slices.DeleteFunc(these, func(a netip.Addr) bool { return slices.Contains(unshown, a) })
		addresses = append(append(addresses, these...), unshown...)
	}
	return addresses
}

// asked returns the address of family f that the Service asks for.
func (m *matter) asked(f addr.Family) (netip.Addr, bool) {
	i := slices.IndexFunc(m.r.Asked, func(a netip.Addr) bool { return addr.FamilyOf(a) == f })
	if i < 0 {
		return netip.Addr{}, false
	}
	return m.r.Asked[i], true
}

// asksFor reports whether the Service says which address of a's family it wants.
func (m *matter) asksFor(a netip.Addr) bool {
	_, ok := m.asked(addr.FamilyOf(a))
	return ok
}

func ofFamily(addresses []netip.Addr, f addr.Family) []netip.Addr {
	var these []netip.Addr
	for _, a := range addresses {
		if addr.FamilyOf(a) == f {
			these = append(these, a)
		}
	}
	return these
}
