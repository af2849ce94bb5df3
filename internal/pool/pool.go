// Package pool knows which addresses a pool offers and which of them are taken.
//
// A Pool is a range inside its subnet; the Book says who holds which address
// and finds the next free one. The package knows nothing of Services beyond
// their name as an owner, and nothing of where addresses are announced.
package pool

import (
	"iter"
	"math"
	"math/big"
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/addr"
)

// Pool is a range of addresses that can be handed out.
type Pool struct {
	// Range is what the pool was written as, and lies inside Subnet.
	Range  addr.Range
	Subnet netip.Prefix
	// Bits is the length of the mask that an address of the pool has on the
	// dummy interface.
	Bits int
	// Explicit says that Range was written as first and last address. Then
	// it offers every one of them, also those that a subnet reserves.
	Explicit bool
	// Exclude are the addresses of Range that are never handed out: sorted,
	// and neither overlapping nor touching each other.
	Exclude []addr.Range
	// Draining says that the pool hands out nothing more. What is held stays.
	Draining bool
	// Text is the range as the user wrote it.
	Text string
}

// Family is the family of the addresses of p.
func (p Pool) Family() addr.Family { return p.Range.Family() }

// Contains reports whether a is in p.
func (p Pool) Contains(a netip.Addr) bool { return p.Range.Contains(a) }

// Prefix is a with the mask that it has on the dummy interface.
func (p Pool) Prefix(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a.Unmap(), p.Bits) }

// Usable returns the addresses that p hands out when it is not draining,
// ascending: its Range without what is excluded, and without those that its
// subnet reserves, unless the user named them. Nothing may be left.
func (p Pool) Usable() []addr.Range { return slices.Collect(p.segments()) }

// Size is the number of addresses in Usable.
func (p Pool) Size() *big.Int {
	size := new(big.Int)
	for r := range p.segments() {
		size.Add(size, r.Size())
	}
	return size
}

// Excludes returns the excluded addresses that a is one of, if it is one.
func (p Pool) Excludes(a netip.Addr) (addr.Range, bool) {
	for _, r := range p.Exclude {
		if r.Contains(a) {
			return r, true
		}
	}
	return addr.Range{}, false
}

// segments is Usable without the list.
func (p Pool) segments() iter.Seq[addr.Range] {
	r := p.unreserved()
	if r.To.Less(r.From) {
		return func(func(addr.Range) bool) {}
	}
	return r.Without(p.Exclude)
}

// unreserved is the range of p without what its subnet reserves. It begins
// after its end when that is all.
//
// A subnet reserves its first address (IPv4: the network; IPv6: the
// subnet-router anycast address of RFC 4291 section 2.6.1) and in IPv4 its last
// (broadcast). Subnets of two addresses (RFC 3021, RFC 6164) and of one reserve
// none.
func (p Pool) unreserved() addr.Range {
	r, reserves := p.Range, p.Subnet.Bits() < p.Family().Bits()-1
	if p.Explicit || !reserves {
		return r
	}
	if r.From == p.Subnet.Masked().Addr() {
		r.From = r.From.Next()
	}
	if p.Family() == addr.V4 && r.To == addr.Last(p.Subnet) {
		r.To = r.To.Prev()
	}
	return r
}

// Saturate returns n as an int64, or the nearest that there is.
func Saturate(n *big.Int) int64 {
	switch {
	case n.IsInt64():
		return n.Int64()
	case n.Sign() < 0:
		return math.MinInt64
	default:
		return math.MaxInt64
	}
}
