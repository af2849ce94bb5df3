package rtnetlink

import (
	"iter"
	"net/netip"
	"strings"

	"golang.org/x/sys/unix"
)

// AppendAttribute writes an attribute behind b, and keeps that aligned, as
// everything in a message is. The kind of one that is made of others takes the
// bit unix.NLA_F_NESTED where the kernel insists on it.
func AppendAttribute(b []byte, kind uint16, value []byte) []byte {
	b = native.AppendUint16(b, uint16(unix.SizeofRtAttr+len(value)))
	b = native.AppendUint16(b, kind)
	b = append(b, value...)
	return append(b, make([]byte, Align(len(value))-len(value))...)
}

// AppendNumber writes a 32-bit attribute behind b.
func AppendNumber(b []byte, kind uint16, value uint32) []byte {
	return AppendAttribute(b, kind, native.AppendUint32(nil, value))
}

// Attributes yields the kind and value of each attribute in b, up to the first
// that is cut short. Kinds come without the bits that say how the value is made.
// Values are part of b.
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

// Attribute returns the value of the first attribute of that kind in b, nil when
// there is none.
func Attribute(b []byte, want uint16) []byte {
	for kind, value := range Attributes(b) {
		if kind == want {
			return value
		}
	}
	return nil
}

// Align rounds n up to the boundary of four bytes on which netlink puts things.
func Align(n int) int { return (n + 3) &^ 3 }

// Number reads a 32-bit attribute; one of another size is 0.
func Number(value []byte) uint32 {
	if len(value) != 4 {
		return 0
	}
	return native.Uint32(value)
}

// Text reads a string attribute, up to the zero at its end.
func Text(value []byte) string {
	s, _, _ := strings.Cut(string(value), "\x00")
	return s
}

// Address reads an address attribute; one of another size is the zero Addr.
func Address(value []byte) netip.Addr {
	a, _ := netip.AddrFromSlice(value)
	return a
}

// Family is AF_INET or AF_INET6, as a is.
func Family(a netip.Addr) uint8 {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}
