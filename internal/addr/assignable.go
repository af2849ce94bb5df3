package addr

import "net/netip"

// Special is a block of addresses that no Service can have.
type Special struct {
	Prefix netip.Prefix
	// What names its addresses, in the plural.
	What string
}

// specials are the blocks of three kinds of addresses: those that no host can have, those that no
// router forwards, and those that stand for addresses of the other family.
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

// Assignable reports whether a Service can have a. Pools offer only such addresses, and PureLB
// reads only such addresses from the status of a Service. So the allocator and the agents agree.
func Assignable(a netip.Addr) bool {
	if !a.IsValid() || a.Zone() != "" {
		return false
	}
	a = a.Unmap()
	_, special := Range{From: a, To: a}.Special()
	return !special
}

// Special returns the first block that r overlaps and from which no Service can
// have an address.
func (r Range) Special() (Special, bool) {
	for _, s := range specials {
		if s.Prefix.Contains(r.From) || r.Contains(s.Prefix.Addr()) { // then one begins in the other
			return s, true
		}
	}
	return Special{}, false
}
