package selection

import (
	"fmt"
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/service"
)

// keep finds out what the Service has.
//
// The Book is right where it disagrees with the status: an address in a status
// that was edited by hand was not allocated, and one that is missing there may
// not have been written yet. What the Service claims is as if it were in the
// Book. A family of which the Book has nothing for the Service is one that was
// allocated by an earlier allocator.
func (m *matter) keep() {
	mine := append(m.claimed(), m.booked...)
	for _, f := range m.r.Families {
		held, booked := ofFamily(m.r.Held, f), ofFamily(mine, f)
		both := slices.DeleteFunc(slices.Clone(held), func(a netip.Addr) bool { return !slices.Contains(booked, a) })
		switch {
		case len(booked) == 0:
			m.kept = append(m.kept, held...)
		case len(both) == 0:
			m.kept = append(m.kept, booked...)
		default:
			m.kept = append(m.kept, both...)
		}
	}
}

// claimed returns what the Service shows and claims.
func (m *matter) claimed() []netip.Addr {
	if len(m.Claims) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(m.r.Held), func(a netip.Addr) bool { return !slices.Contains(m.Claims[a], m.me) })
}

// narrow makes up the mind of a Service that says nothing of families: it is
// content with those of decided, if there are any.
func (m *matter) narrow(decided []netip.Addr) {
	if m.r.Policy != service.One || len(decided) == 0 {
		return
	}
	m.r.Policy = service.All
	m.r.Families = slices.DeleteFunc(slices.Clone(m.r.Families), func(f addr.Family) bool { return len(ofFamily(decided, f)) == 0 })
}

// good returns what stays of what the Service has: all that it shows, unless it
// asks for another address of the family, or to be looked at anew. What was
// chosen then in place of another, and is not written yet, is chosen again.
func (m *matter) good() []netip.Addr {
	var good []netip.Addr
	for _, a := range m.kept {
		if m.stays(a, good) {
			good = append(good, a)
		}
	}
	for _, a := range m.booked {
		if m.r.Reevaluate && m.r.Wants(addr.FamilyOf(a)) && !m.asksFor(a) && !slices.Contains(m.kept, a) && m.stays(a, good) {
			good = append(good, a)
		}
	}
	return good
}

// stays reports whether a stays beside those of the others that do. Of what the
// Service does not show yet, there may be more than it is to get: it was chosen
// for a request that has changed since.
func (m *matter) stays(a netip.Addr, others []netip.Addr) bool {
	shown := slices.Contains(m.r.Held, a)
	wish, asks := m.asked(addr.FamilyOf(a))
	switch {
	case asks && a != wish && (!shown || !slices.Contains(m.kept, wish)):
		return false
	case m.r.Reevaluate:
		return m.fits(a) && !m.spare(a, others)
	}
	return shown || asks || !m.spare(a, others)
}

// conflict says which of addresses is somebody else's by right, be it a node's.
func (m *matter) conflict(addresses []netip.Addr) string {
	for _, a := range addresses {
		if why, blocked := m.Book.Blocked(a); blocked {
			return fmt.Sprintf("%s is also an %s, so no node announces it; take it off that node, or set the annotation %s: \"true\" "+
				"to get another address", a, why, service.AnnotationReevaluate)
		}
		if by, taken := m.Book.Owner(a); taken && m.stranger(a) {
			return fmt.Sprintf("%s is also held by %s, which had it first; set the annotation %s: \"true\" to get another address, "+
				"or delete one of the two Services", a, by, service.AnnotationReevaluate)
		}
	}
	return ""
}

// stranger reports whether a, which somebody holds, is not the Service's to hold.
func (m *matter) stranger(a netip.Addr) bool {
	return !slices.Contains(m.booked, a) && m.Book.Refuses(a, m.me, m.Wide(a)) != nil
}
