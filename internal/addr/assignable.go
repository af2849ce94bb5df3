package addr

import "net/netip"

// Special is a block of addresses that no Service can have.
type Special struct {
	Prefix netip.Prefix
	// What says what its addresses are, in the plural.
	What string
}

// specials are the blocks of addresses that no host can have, that a router
// does not forward, or that cannot be told from those of the other family.
var specials = []Special{
	{netip.MustParsePrefix("0.0.0.0/8"), `addresses of "this network"`},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback addresses"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local addresses"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast addresses"},
	{netip.MustParsePrefix("255.255.255.255/32"), "broadcast addresses"},
	{netip.MustParsePrefix("::/80"), "unspecified, loopback and IPv4-mapped addresses"},
	{netip.MustParsePrefix("fe80::/10"), "link-local addresses"},
	{netip.MustParsePrefix("ff00::/8"), "multicast addresses"},
}

// Assignable reports whether a is an address that a Service can have. A pool
// offers no other addresses, and no others are read from the status of a
// Service: so what the allocator gives is what the allocator and the agents
// read.
func Assignable(a netip.Addr) bool {
	if !a.IsValid() || a.Zone() != "" {
		return false
	}
	a = a.Unmap()
	_, special := Range{From: a, To: a}.Special()
	return !special
}

// Special returns the first block that r has an address in common with, and
// that no Service can have an address of.
func (r Range) Special() (Special, bool) {
	for _, s := range specials {
		if r.Overlaps(Range{From: s.Prefix.Addr(), To: Last(s.Prefix)}) {
			return s, true
		}
	}
	return Special{}, false
}
