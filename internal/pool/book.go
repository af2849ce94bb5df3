package pool

import (
	"errors"
	"math/big"
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/addr"
)

// Owner is who holds an address: a Service, as "namespace/name".
type Owner string

// Book is who holds which address. It does not know the pools: a holding stays
// when the pool that it came from is gone.
//
// Everything that it is asked takes O(log n) steps for n holdings, however
// large the pool. It is not safe for concurrent use: its owner locks.
type Book struct {
	// holders says who holds an address, and held what an owner holds, in
	// order; each is the other turned round.
	holders map[netip.Addr]Owner
	held    map[Owner][]netip.Addr
	blocked map[netip.Addr]string
	v4, v6  shelf
}

// NewBook returns a Book in which nobody holds anything.
func NewBook() *Book {
	return &Book{
		holders: map[netip.Addr]Owner{},
		held:    map[Owner][]netip.Addr{},
		blocked: map[netip.Addr]string{},
	}
}

// Next returns the lowest address of p that is free: usable, not held and not
// blocked.
func (b *Book) Next(p Pool) (netip.Addr, bool) {
	r, ok := p.Usable()
	if !ok {
		return netip.Addr{}, false
	}
	free, ok := b.shelf(p.Family()).taken.gap(addr.NumberOf(r.From), addr.NumberOf(r.To))
	if !ok {
		return netip.Addr{}, false
	}
	return free.Addr(p.Family()), true
}

// Hold notes that by holds a. It is refused with a *HeldError while somebody
// else does, and with a *BlockedError while a is blocked. Holding what by holds
// already changes nothing.
func (b *Book) Hold(a netip.Addr, by Owner) error {
	a = plain(a)
	if other, ok := b.holders[a]; ok && other == by {
		return nil
	}
	if reason, ok := b.blocked[a]; ok {
		return &BlockedError{a, reason}
	}
	return b.Adopt(a, by)
}

// Adopt notes that by has held a since before the Book was opened, so that it
// keeps a even where a has been blocked since. It is refused with a *HeldError
// only.
func (b *Book) Adopt(a netip.Addr, by Owner) error {
	a = plain(a)
	if !a.IsValid() {
		return errors.New("there is no address to hold")
	}
	switch other, ok := b.holders[a]; {
	case !ok:
		b.enter(a, by)
	case other != by:
		return &HeldError{a, other}
	}
	return nil
}

// Release ends by's holding of a, and reports whether there was one.
func (b *Book) Release(a netip.Addr, by Owner) bool {
	a = plain(a)
	if other, ok := b.holders[a]; !ok || other != by {
		return false
	}
	b.strike(a, by)
	return true
}

// Owner returns who holds a.
func (b *Book) Owner(a netip.Addr) (Owner, bool) {
	by, ok := b.holders[plain(a)]
	return by, ok
}

// Held returns the addresses that by holds, sorted.
func (b *Book) Held(by Owner) []netip.Addr { return slices.Clone(b.held[by]) }

// InUse returns how many addresses of p are held.
func (b *Book) InUse(p Pool) int64 {
	s, first, last := b.shelf(p.Family()), addr.NumberOf(p.Range.From), addr.NumberOf(p.Range.To)
	return int64(s.taken.between(first, last) - s.barred.between(first, last))
}

// Available returns how many addresses of p are free, in the sense of Next.
func (b *Book) Available(p Pool) *big.Int {
	r, ok := p.Usable()
	if !ok {
		return new(big.Int)
	}
	taken := b.shelf(p.Family()).taken.between(addr.NumberOf(r.From), addr.NumberOf(r.To))
	size := r.Size()
	return size.Sub(size, big.NewInt(int64(taken)))
}

// enter writes down that by holds a, which nobody does.
func (b *Book) enter(a netip.Addr, by Owner) {
	b.holders[a] = by
	at, _ := slices.BinarySearchFunc(b.held[by], a, netip.Addr.Compare)
	b.held[by] = slices.Insert(b.held[by], at, a)

	s, n := b.shelfOf(a), addr.NumberOf(a)
	if _, blocked := b.blocked[a]; blocked {
		s.barred.remove(n)
	} else {
		s.taken.add(n)
	}
}

// strike deletes what enter wrote.
func (b *Book) strike(a netip.Addr, by Owner) {
	delete(b.holders, a)
	if left := b.held[by]; len(left) > 1 {
		at, _ := slices.BinarySearchFunc(left, a, netip.Addr.Compare)
		b.held[by] = slices.Delete(left, at, at+1)
	} else {
		delete(b.held, by)
	}

	s, n := b.shelfOf(a), addr.NumberOf(a)
	if _, blocked := b.blocked[a]; blocked {
		s.barred.add(n)
	} else {
		s.taken.remove(n)
	}
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
