package addr

import (
	"encoding/binary"
	"math/big"
	"math/bits"
	"net/netip"
)

// Number is an address as an unsigned integer, or the distance between two
// addresses of one family. It does not know its family.
type Number struct{ Hi, Lo uint64 }

// NumberOf returns a as a Number. An IPv4 address is a number of 32 bits, and any
// other address is one of 128 bits. A zone is dropped.
func NumberOf(a netip.Addr) Number {
	if a.Is4() {
		b := a.As4()
		return Number{Lo: uint64(binary.BigEndian.Uint32(b[:]))}
	}
	b := a.As16()
	return Number{Hi: binary.BigEndian.Uint64(b[:8]), Lo: binary.BigEndian.Uint64(b[8:])}
}

// In returns the address of family f that has the number n. For V4 only the
// last 32 bits of n count.
func (n Number) In(f Family) netip.Addr {
	if f == V4 {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(n.Lo))
		return netip.AddrFrom4(b)
	}
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], n.Hi)
	binary.BigEndian.PutUint64(b[8:], n.Lo)
	return netip.AddrFrom16(b)
}

// Plus returns n + d, modulo 2^128.
func (n Number) Plus(d uint64) Number {
	lo, carry := bits.Add64(n.Lo, d, 0)
	return Number{Hi: n.Hi + carry, Lo: lo}
}

// Minus returns n - m, modulo 2^128.
func (n Number) Minus(m Number) Number {
	lo, borrow := bits.Sub64(n.Lo, m.Lo, 0)
	hi, _ := bits.Sub64(n.Hi, m.Hi, borrow)
	return Number{Hi: hi, Lo: lo}
}

// Big returns a new big integer with the value of n.
func (n Number) Big() *big.Int {
	b := new(big.Int).SetUint64(n.Hi)
	b.Lsh(b, 64)
	return b.Or(b, new(big.Int).SetUint64(n.Lo))
}
