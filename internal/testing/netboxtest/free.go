package netboxtest

import (
	"net/netip"
	"slices"
	"strings"

	"purelb.io/purelb/internal/addr"
)

// free returns the first address that b offers. The zero Addr means that b is full.
func (s *Server) free(b Block) netip.Addr {
	if b.Populated {
		return netip.Addr{}
	}
	last := b.last()
	for a := b.first(); a.IsValid() && !last.Less(a); a = a.Next() {
		if !s.inUse(b, a) {
			return a
		}
	}
	return netip.Addr{}
}

// narrow says that b offers the network and the broadcast address too.
func (b Block) narrow() bool {
	return b.isRange() || b.IsPool || b.Prefix.Addr().BitLen()-b.Prefix.Bits() < 2
}

// first returns the first address that b offers.
func (b Block) first() netip.Addr {
	if b.narrow() {
		return b.Prefix.Addr()
	}
	return b.Prefix.Addr().Next()
}

// last returns the last address that b offers.
func (b Block) last() netip.Addr {
	if b.isRange() {
		return b.End
	}
	last := addr.Last(b.Prefix)
	if b.narrow() || last.Is6() {
		return last
	}
	return last.Prev()
}

// contains says whether a is in the range b.
func (b Block) contains(a netip.Addr) bool { return !a.Less(b.Prefix.Addr()) && !b.End.Less(a) }

// inUse reports whether ip is taken in a block. Before 4.6.3 a range also compares the mask.
func (s *Server) inUse(b Block, ip netip.Addr) bool {
	anyMask := !b.isRange() || !s.before("4.6.3")
	return slices.ContainsFunc(s.db.addresses, func(a Address) bool {
		return a.ip() == ip && a.VRF == b.VRF && (anyMask || a.Prefix.Bits() == b.Prefix.Bits())
	}) || !b.isRange() && s.populated(b.VRF, ip) != nil
}

// populated returns the range with ip that is marked as populated, or nil.
func (s *Server) populated(vrf string, ip netip.Addr) *Block {
	return first(s.db.blocks, func(r Block) bool { return r.isRange() && r.Populated && r.VRF == vrf && r.contains(ip) })
}

// overlap returns the address that a duplicates, or nil. Addresses with certain roles may be equal.
func (s *Server) overlap(a Address) *Address {
	shared := strings.Fields("anycast vip vrrp hsrp glbp carp")
	if v := s.db.find(vrfs, a.VRF); v != nil && v.loose {
		return nil
	}
	return first(s.db.addresses, func(o Address) bool {
		both := slices.Contains(shared, a.Role) && slices.Contains(shared, o.Role)
		return o.ID != a.ID && o.VRF == a.VRF && o.ip() == a.ip() && !both
	})
}
