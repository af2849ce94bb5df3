package pool

import (
	"math/big"
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/addr"
)

// Book is who holds which address, and under which terms. It does not know the
// pools: a holding stays when the pool that it came from is gone.
//
// What an owner wants is written once, however many addresses it holds. What is
// in effect follows from that where it holds an address alone, and is kept with
// the address where it does not.
//
// Everything that it is asked takes O(log n) steps for n holdings, however
// large the pool, and one for every port that the owner asks for. It is not
// safe for concurrent use: its owner locks.
type Book struct {
	// holders is the first tenant of each address, and crowds are all of
	// them, where there is more than one. held is what an owner holds, in
	// order.
	holders map[netip.Addr]Owner
	crowds  map[netip.Addr]*crowd
	held    map[Owner][]netip.Addr
	// terms are what owners want, tidy, of those that want anything; sites is
	// where a key is in effect.
	terms   map[Owner]Terms
	sites   map[site]*places
	blocked map[netip.Addr]string
	v4, v6  shelf
}

// NewBook returns a Book in which nobody holds anything.
func NewBook() *Book {
	return &Book{
		holders: map[netip.Addr]Owner{},
		crowds:  map[netip.Addr]*crowd{},
		held:    map[Owner][]netip.Addr{},
		terms:   map[Owner]Terms{},
		sites:   map[site]*places{},
		blocked: map[netip.Addr]string{},
	}
}

// Next returns the lowest address of p that is free: usable, not held and not
// blocked. A draining pool has none.
func (b *Book) Next(p Pool) (netip.Addr, bool) {
	if p.Draining {
		return netip.Addr{}, false
	}
	taken := &b.shelf(p.Family()).taken
	for r := range p.segments() {
		if free, ok := taken.gap(addr.NumberOf(r.From), addr.NumberOf(r.To)); ok {
			return free.Addr(p.Family()), true
		}
	}
	return netip.Addr{}, false
}

// Hold notes that by holds a, under its terms. Beside others it does only when
// they have its key, and none of its ports; and, unless the address is shared
// wide, when all are of its namespace.
//
// It is refused with a *BlockedError while a is blocked, and otherwise with a
// *HeldError. Holding what by holds already changes nothing.
func (b *Book) Hold(a netip.Addr, by Owner, wide bool) error {
	if err := b.Refuses(a, by, wide); err != nil {
		return err
	}
	b.enter(plain(a), by)
	return nil
}

// Adopt notes that by has held a since before the Book was opened, so that it
// keeps a even where a has been blocked since, and where neither namespaces nor
// ports would let it join the other tenants: then ports stay with those who
// have them. It is refused with a *HeldError only, when others hold a and their
// key is not that of by.
func (b *Book) Adopt(a netip.Addr, by Owner) error {
	a = plain(a)
	if !a.IsValid() {
		return errNoAddress
	}
	if first, taken := b.holders[a]; taken && !b.holds(a, by, first) {
		if key := b.terms[by].Key; key == "" || key != b.keyOf(b.crowds[a], first) {
			return &HeldError{Addr: a, By: first, Reason: HeldByKey}
		}
	}
	b.enter(a, by)
	return nil
}

// Release ends by's holding of a, and reports whether there was one.
func (b *Book) Release(a netip.Addr, by Owner) bool {
	a = plain(a)
	first, taken := b.holders[a]
	if !taken || !b.holds(a, by, first) {
		return false
	}
	if c := b.crowds[a]; c != nil {
		b.leave(a, by, c)
	} else {
		b.vacate(a)
	}
	b.strike(a, by)
	return true
}

// Owner returns who holds a: of several, the first that came.
func (b *Book) Owner(a netip.Addr) (Owner, bool) {
	by, ok := b.holders[plain(a)]
	return by, ok
}

// Owners returns all who hold a, in the order in which they came.
func (b *Book) Owners(a netip.Addr) []Owner {
	a = plain(a)
	if c := b.crowds[a]; c != nil {
		return slices.Clone(c.tenants)
	}
	if by, ok := b.holders[a]; ok {
		return []Owner{by}
	}
	return nil
}

// Held returns the addresses that by holds, sorted.
func (b *Book) Held(by Owner) []netip.Addr { return slices.Clone(b.held[by]) }

// InUse returns how many addresses of p are held, each once however many share
// it.
func (b *Book) InUse(p Pool) int64 {
	s, first, last := b.shelf(p.Family()), addr.NumberOf(p.Range.From), addr.NumberOf(p.Range.To)
	return int64(s.taken.between(first, last) - s.barred.between(first, last))
}

// Available returns how many addresses of p are free, in the sense of Next.
func (b *Book) Available(p Pool) *big.Int {
	free := new(big.Int)
	if p.Draining {
		return free
	}
	taken := &b.shelf(p.Family()).taken
	for r := range p.segments() {
		size, n := r.Size(), taken.between(addr.NumberOf(r.From), addr.NumberOf(r.To))
		free.Add(free, size.Sub(size, big.NewInt(int64(n))))
	}
	return free
}
