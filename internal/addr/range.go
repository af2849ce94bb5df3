// Package addr is the arithmetic of address ranges. It knows nothing of
// Kubernetes, pools or interfaces.
//
// It is exact for any range of either family, from a single address to the
// whole of IPv6.
//
// Read family.go, range.go, block.go (several ranges), index.go (which range has an address),
// assignable.go (which addresses Services can have) and parse.go.
package addr

import (
	"math/big"
	"net/netip"
)

// Range is the addresses From to To, both included. They are of one family, without
// a zone and not IPv4-mapped, and From is not above To. ParseRange returns only
// such ranges.
type Range struct{ From, To netip.Addr }

// Family is the family of the addresses of r.
func (r Range) Family() Family { return FamilyOf(r.From) }

// Contains reports whether a is in r. An IPv4-mapped address is treated as the
// IPv4 address in it. An address with a zone is in no range.
func (r Range) Contains(a netip.Addr) bool {
	a = a.Unmap()
	return a.Zone() == "" && r.From.Compare(a) <= 0 && a.Compare(r.To) <= 0
}

// Overlaps reports whether r and o have an address in common.
func (r Range) Overlaps(o Range) bool {
	return r.Family() == o.Family() && r.From.Compare(o.To) <= 0 && o.From.Compare(r.To) <= 0
}

// Size is the number of addresses in r.
func (r Range) Size() *big.Int {
	size := number(r.To)
	return size.Sub(size, number(r.From)).Add(size, big.NewInt(1))
}

func number(a netip.Addr) *big.Int { return new(big.Int).SetBytes(a.AsSlice()) }

// String returns r in the form that ParseRange reads as an explicit range.
func (r Range) String() string { return r.From.String() + "-" + r.To.String() }

// Last returns the last address of p. In an IPv4 subnet that is the broadcast
// address.
func Last(p netip.Prefix) netip.Addr {
	bytes := p.Addr().AsSlice()
	for bit := max(p.Bits(), 0); bit < 8*len(bytes); bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	last, _ := netip.AddrFromSlice(bytes)
	return last
}

// Prefixes returns the shortest list of prefixes that covers exactly the addresses of r, in order.
func (r Range) Prefixes() []netip.Prefix {
	var all []netip.Prefix
	for from := r.From; from.IsValid() && !r.To.Less(from); {
		bits := from.BitLen()
		for bits > 0 {
			wider := netip.PrefixFrom(from, bits-1)
			if wider.Masked().Addr() != from || r.To.Less(Last(wider)) {
				break
			}
			bits--
		}
		p := netip.PrefixFrom(from, bits)
		all = append(all, p)
		from = Last(p).Next()
	}
	return all
}
