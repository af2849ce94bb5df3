package pool

import (
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/addr"
)

// enter writes down that by holds a, beside those who do.
func (b *Book) enter(a netip.Addr, by Owner) {
	switch first, taken := b.holders[a]; {
	case !taken:
		b.occupy(a, by)
	case b.holds(a, by, first):
		return
	default:
		b.join(a, by)
	}
	at, _ := slices.BinarySearchFunc(b.held[by], a, netip.Addr.Compare)
	b.held[by] = slices.Insert(b.held[by], at, a)
}

// strike deletes a from what by holds.
func (b *Book) strike(a netip.Addr, by Owner) {
	left := b.held[by]
	if len(left) == 1 {
		delete(b.held, by)
		return
	}
	at, _ := slices.BinarySearchFunc(left, a, netip.Addr.Compare)
	b.held[by] = slices.Delete(left, at, at+1)
}

// occupy makes by the sole tenant of a, which has none.
func (b *Book) occupy(a netip.Addr, by Owner) {
	b.holders[a] = by
	b.move(a, site{}, b.siteOf(a))

	s, n := b.shelfOf(a), addr.NumberOf(a)
	if _, blocked := b.blocked[a]; blocked {
		s.barred.remove(n)
	} else {
		s.taken.add(n)
	}
}

// vacate undoes occupy.
func (b *Book) vacate(a netip.Addr) {
	b.move(a, b.siteOf(a), site{})
	delete(b.holders, a)

	s, n := b.shelfOf(a), addr.NumberOf(a)
	if _, blocked := b.blocked[a]; blocked {
		s.barred.add(n)
	} else {
		s.taken.remove(n)
	}
}

// holds reports whether by is a tenant of a, of which first is the first.
func (b *Book) holds(a netip.Addr, by, first Owner) bool {
	if first == by {
		return true
	}
	if b.crowds[a] == nil {
		return false
	}
	_, found := slices.BinarySearchFunc(b.held[by], a, netip.Addr.Compare)
	return found
}

func (b *Book) isHeld(a netip.Addr) bool {
	_, ok := b.holders[a]
	return ok
}

func (b *Book) shelfOf(a netip.Addr) *shelf { return b.shelf(addr.FamilyOf(a)) }

func (b *Book) shelf(f addr.Family) *shelf {
	if f == addr.V4 {
		return &b.v4
	}
	return &b.v6
}

// plain returns a in the one form in which it is written in the Book.
func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }
