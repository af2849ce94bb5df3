package segment

import (
	"encoding/binary"
	"net"
	"net/netip"

	"purelb.io/purelb/lab/internal/topology"
)

// MAC is a hardware address.
type MAC [6]byte

func (m MAC) String() string { return net.HardwareAddr(m[:]).String() }

const (
	etherIPv4, etherARP, etherIPv6 = 0x0800, 0x0806, 0x86dd

	icmpv6                = 58
	neighborSolicitation  = 135
	neighborAdvertisement = 136
)

// question returns a frame in which from asks its segment which station has a: an ARP request, or a
// Neighbor Solicitation. Its sender address is that of from, as when a host wants to send a packet.
// Without a sender address it would be a probe before a claim (RFC 5227).
func question(from topology.NIC, a netip.Addr) []byte {
	if a.Is4() {
		return arpRequest(from, a)
	}
	return solicitation(from, a)
}

func arpRequest(from topology.NIC, a netip.Addr) []byte {
	f := header(MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, from, etherARP)
	f = append(f, 0, 1, 8, 0, 6, 4, 0, 1)
	f = append(f, from.MAC()...)
	f = append(f, from.V4.Addr().AsSlice()...)
	f = append(f, make([]byte, 6)...)
	return append(f, a.AsSlice()...)
}

func solicitation(from topology.NIC, a netip.Addr) []byte {
	target, source := a.As16(), from.V6.Addr().As16()
	group := netip.MustParseAddr("ff02::1:ff00:0").As16()
	copy(group[13:], target[13:])
	f := header(MAC{0x33, 0x33, group[12], group[13], group[14], group[15]}, from, etherIPv6)

	body := append([]byte{neighborSolicitation, 0, 0, 0, 0, 0, 0, 0}, target[:]...)
	body = append(append(body, 1, 1), from.MAC()...)
	binary.BigEndian.PutUint16(body[2:], checksum(source, group, body))

	f = append(f, 0x60, 0, 0, 0)
	f = binary.BigEndian.AppendUint16(f, uint16(len(body)))
	f = append(f, icmpv6, 255)
	f = append(f, source[:]...)
	f = append(f, group[:]...)
	return append(f, body...)
}

func header(to MAC, from topology.NIC, kind uint16) []byte {
	f := append(to[:], from.MAC()...)
	return binary.BigEndian.AppendUint16(f, kind)
}

// checksum returns the ICMPv6 checksum (RFC 4443 section 2.3) of a body of even length.
func checksum(source, destination [16]byte, body []byte) uint16 {
	sum := uint32(len(body)) + icmpv6
	for _, part := range [][]byte{source[:], destination[:], body} {
		for i := 0; i+1 < len(part); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(part[i:]))
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// answer reads a frame as the answer to a question of to. It returns the requested address and the
// station that has it.
func answer(f []byte, to topology.NIC) (a netip.Addr, mac MAC, ok bool) {
	const arpSize, sourceIn, targetIn = 14 + 28, 14 + 14, 14 + 24
	if len(f) < arpSize || MAC(f) != MAC(to.MAC()) {
		return a, mac, false
	}
	switch binary.BigEndian.Uint16(f[12:]) {
	case etherARP:
		reply := binary.BigEndian.Uint16(f[20:]) == 2
		target := netip.AddrFrom4([4]byte(f[targetIn:]))
		return netip.AddrFrom4([4]byte(f[sourceIn:])), MAC(f[22:]), reply && target == to.V4.Addr()
	case etherIPv6:
		const body = 14 + 40
		if len(f) < body+24 || f[14+6] != icmpv6 || f[body] != neighborAdvertisement {
			return a, mac, false
		}
		return netip.AddrFrom16([16]byte(f[body+8:])), MAC(f[6:]), true
	}
	return a, mac, false
}

// source returns the source of an IP packet, and the station that sent it on this segment. Neighbor
// Discovery is not traffic: source ignores it.
func source(f []byte) (a netip.Addr, mac MAC, ok bool) {
	if len(f) < 14+40 {
		return a, mac, false
	}
	switch binary.BigEndian.Uint16(f[12:]) {
	case etherIPv4:
		return netip.AddrFrom4([4]byte(f[14+12:])), MAC(f[6:]), true
	case etherIPv6:
		return netip.AddrFrom16([16]byte(f[14+8:])), MAC(f[6:]), f[14+6] != icmpv6
	}
	return a, mac, false
}
