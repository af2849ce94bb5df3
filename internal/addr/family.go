package addr

import "net/netip"

// Family is a version of the Internet Protocol. The zero Family is that of the
// zero netip.Addr.
type Family uint8

const (
	V4 Family = 4
	V6 Family = 6
)

// FamilyOf returns the family of a. An IPv4-mapped IPv6 address is treated as IPv4.
func FamilyOf(a netip.Addr) Family {
	switch {
	case !a.IsValid():
		return 0
	case a.Unmap().Is4():
		return V4
	default:
		return V6
	}
}

// Bits is the length of an address of f, and so of the longest mask.
func (f Family) Bits() int {
	switch f {
	case V4:
		return 32
	case V6:
		return 128
	default:
		return 0
	}
}

func (f Family) String() string {
	switch f {
	case V4:
		return "IPv4"
	case V6:
		return "IPv6"
	default:
		return "no family"
	}
}
