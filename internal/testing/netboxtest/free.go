package netboxtest

import (
	"net/netip"
	"slices"
	"strings"
)

// free returns the first n addresses that b offers.
func (s *Server) free(b Block, n int) []netip.Addr {
	first, last := b.Prefix.Addr(), b.End
	if !b.isRange() {
		first, last = bounds(b)
	} else if b.Populated {
		return nil
	}
	var list []netip.Addr
	for a := first; len(list) < n && a.IsValid() && !last.Less(a); a = a.Next() {
		if !s.inUse(b, a) {
			list = append(list, a)
		}
	}
	return list
}

// bounds returns the first and the last address that b offers. It leaves out the network and the
// broadcast address.
func bounds(b Block) (netip.Addr, netip.Addr) {
	first, last := b.Prefix.Addr(), lastOf(b.Prefix)
	bits := 128
	if first.Is4() {
		bits = 32
	}
	if b.IsPool || bits-b.Prefix.Bits() < 2 {
		return first, last
	}
	if first.Is4() {
		return first.Next(), last.Prev()
	}
	return first.Next(), last
}

func lastOf(p netip.Prefix) netip.Addr {
	bytes := p.Addr().AsSlice()
	for i := p.Bits(); i < len(bytes)*8; i++ {
		bytes[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(bytes)
	return a
}

// inUse reports whether ip is taken in a block. Before 4.6.3 a range also compares the mask.
func (s *Server) inUse(b Block, ip netip.Addr) bool {
	container := b.Status == "container" && b.VRF == "" && !b.isRange()
	for _, a := range s.db.addresses {
		sameMask := !b.isRange() || !s.before("4.6.3") || a.Prefix.Bits() == b.Prefix.Bits()
		if a.ip() == ip && (a.VRF == b.VRF || container) && sameMask {
			return true
		}
	}
	return slices.ContainsFunc(s.db.blocks, func(r Block) bool {
		return !b.isRange() && r.isRange() && r.Populated && r.VRF == b.VRF && r.contains(ip)
	})
}

// overlap returns the address that a duplicates, or nil. Addresses with certain roles may be equal.
func (s *Server) overlap(a Address) *Address {
	shared := strings.Fields("anycast vip vrrp hsrp glbp carp")
	if v := s.db.find(vrfs, a.VRF); v != nil && !v.unique || v == nil && !s.GlobalUnique {
		return nil
	}
	for i, o := range s.db.addresses {
		both := slices.Contains(shared, a.Role) && slices.Contains(shared, o.Role)
		if o.ID != a.ID && o.VRF == a.VRF && o.ip() == a.ip() && !both {
			return &s.db.addresses[i]
		}
	}
	return nil
}
