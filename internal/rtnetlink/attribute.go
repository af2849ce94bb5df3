package rtnetlink

import (
	"iter"
	"net/netip"

	"golang.org/x/sys/unix"
)

// AppendAttribute appends an attribute to b, and pads it to the alignment of netlink
// messages. If the attribute contains attributes, and the kernel insists on it, kind must
// include the bit unix.NLA_F_NESTED.
func AppendAttribute(b []byte, kind uint16, value []byte) []byte {
	b = native.AppendUint16(b, uint16(unix.SizeofRtAttr+len(value)))
	b = native.AppendUint16(b, kind)
	b = append(b, value...)
	return append(b, make([]byte, Align(len(value))-len(value))...)
}

// AppendNumber appends a 32-bit attribute to b.
func AppendNumber(b []byte, kind uint16, value uint32) []byte {
	return AppendAttribute(b, kind, native.AppendUint32(nil, value))
}

// Attributes yields the kind and the value of each attribute in b, up to the first
// truncated one. It removes the flag bits from the kinds. The values share memory with b.
func Attributes(b []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		for len(b) >= unix.SizeofRtAttr {
			size := int(native.Uint16(b))
			if size < unix.SizeofRtAttr || size > len(b) {
				return
			}
			kind := native.Uint16(b[2:]) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
			if !yield(kind, b[unix.SizeofRtAttr:size]) {
				return
			}
			b = b[min(Align(size), len(b)):]
		}
	}
}

// Attribute returns the value of the first attribute of this kind in b, or nil if there is
// none.
func Attribute(b []byte, want uint16) []byte {
	for kind, value := range Attributes(b) {
		if kind == want {
			return value
		}
	}
	return nil
}

// Align rounds n up to a multiple of four bytes, the alignment of netlink messages.
func Align(n int) int { return (n + 3) &^ 3 }

// Number decodes a 32-bit attribute. It returns 0 if the size is wrong.
func Number(value []byte) uint32 {
	if len(value) != 4 {
		return 0
	}
	return native.Uint32(value)
}

// Address decodes an address attribute. It returns the zero Addr if the size is wrong.
func Address(value []byte) netip.Addr {
	a, _ := netip.AddrFromSlice(value)
	return a
}

// Family returns the address family of a: AF_INET or AF_INET6.
func Family(a netip.Addr) uint8 {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}
