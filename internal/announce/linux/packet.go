package linux

import (
	"encoding/binary"
	"net/netip"
)

const (
	arpRequest = 1
	arpReply   = 2

	icmpv6                = 58
	neighborSolicitation  = 135
	neighborAdvertisement = 136
	router, override      = 0x80, 0x20
	sourceLinkLayer       = 1
	targetLinkLayer       = 2

	sizeofARP  = 28
	sizeofIPv6 = 40
	// ownSegment is the hop limit that proves that no router forwarded the packet.
	ownSegment = 255
)

// ethernetIPv4 is the start of an ARP packet: Ethernet, IPv4, and the lengths of their
// addresses.
var ethernetIPv4 = [6]byte{0, 1, 8, 0, 6, 4}

// gratuitousARP returns an ARP packet for Ethernet in which mac announces addr to all hosts
// without a request: sender and target are the same address.
//
// In a request, the target's hardware address has no meaning and is zero (RFC 5227 section
// 2.3). In a reply, it is the address to cache (RFC 5944 section 4.6). That distinguishes
// the reply from an answer to a request.
func gratuitousARP(operation uint16, mac [6]byte, addr netip.Addr) []byte {
	ip := addr.As4()
	var target [6]byte
	if operation == arpReply {
		target = mac
	}
	return packetARP(operation, mac, ip, target, ip)
}

// probeARP returns an ARP packet in which mac asks who has addr. It has no sender address,
// so no host caches anything (RFC 5227 section 2.1.1).
func probeARP(mac [6]byte, addr netip.Addr) []byte {
	return packetARP(arpRequest, mac, [4]byte{}, [6]byte{}, addr.As4())
}

// requestARP returns an ARP packet in which mac, with the address source, asks who has
// addr. A host sends such a request before it sends packets to addr.
func requestARP(mac [6]byte, source, addr netip.Addr) []byte {
	return packetARP(arpRequest, mac, source.As4(), [6]byte{}, addr.As4())
}

func packetARP(operation uint16, mac [6]byte, ip [4]byte, targetMAC [6]byte, target [4]byte) []byte {
	b := append(make([]byte, 0, sizeofARP), ethernetIPv4[:]...)
	b = binary.BigEndian.AppendUint16(b, operation)
	b = append(b, mac[:]...)
	b = append(b, ip[:]...)
	b = append(b, targetMAC[:]...)
	return append(b, target[:]...)
}

// unsolicitedNA returns an IPv6 packet to all nodes in which mac announces addr (RFC 4861
// section 7.2.6). With the flag override, a host replaces its cached entry. Without the
// flag router, a host that uses mac as a router stops doing so.
func unsolicitedNA(mac [6]byte, source, addr netip.Addr, flags byte) []byte {
	target := addr.As16()
	body := append([]byte{neighborAdvertisement, 0, 0, 0, flags, 0, 0, 0}, target[:]...)
	body = append(body, targetLinkLayer, 1)
	body = append(body, mac[:]...)
	binary.BigEndian.PutUint16(body[2:], checksum(source, allNodes, body))
	return append(headerIPv6(source, allNodes, len(body)), body...)
}

// probeNS returns an IPv6 packet that asks who has addr, without a source address: a
// Neighbor Solicitation as in duplicate address detection (RFC 4862 section 5.4.2). The
// answer goes to all nodes. The destination of the packet is the solicited-node group.
func probeNS(addr netip.Addr) []byte {
	return packetNS(netip.IPv6Unspecified(), addr, nil)
}

// requestNS returns an IPv6 packet in which mac, with the address source, asks who has addr
// (RFC 4861 section 7.2.2). The answer goes to source alone.
func requestNS(mac [6]byte, source, addr netip.Addr) []byte {
	return packetNS(source, addr, append([]byte{sourceLinkLayer, 1}, mac[:]...))
}

func packetNS(source, addr netip.Addr, options []byte) []byte {
	target, group := addr.As16(), solicitedNode(addr)
	body := append([]byte{neighborSolicitation, 0, 0, 0, 0, 0, 0, 0}, target[:]...)
	body = append(body, options...)
	binary.BigEndian.PutUint16(body[2:], checksum(source, group, body))
	return append(headerIPv6(source, group, len(body)), body...)
}

// solicitedNode returns the multicast group of all nodes with an address that ends like
// addr (RFC 4291 section 2.7.1).
func solicitedNode(addr netip.Addr) netip.Addr {
	b := addr.As16()
	copy(b[:], []byte{0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff})
	return netip.AddrFrom16(b)
}

// groupMAC returns the Ethernet address of an IPv6 group (RFC 2464 section 7).
func groupMAC(group netip.Addr) [8]byte {
	b := group.As16()
	return [8]byte{0x33, 0x33, b[12], b[13], b[14], b[15]}
}

// allNodes is the group of every node on the link.
var allNodes = netip.MustParseAddr("ff02::1")

// headerIPv6 returns the IPv6 header of an ICMPv6 packet within the segment.
func headerIPv6(source, destination netip.Addr, length int) []byte {
	src, dst := source.As16(), destination.As16()
	b := []byte{6 << 4, 0, 0, 0, byte(length >> 8), byte(length), icmpv6, ownSegment}
	b = append(b, src[:]...)
	return append(b, dst[:]...)
}

// checksum returns the checksum of ICMPv6, over a pseudo header (RFC 8200 section 8.1) and
// the message. The checksum field of the message must still be 0.
func checksum(source, destination netip.Addr, body []byte) uint16 {
	src, dst := source.As16(), destination.As16()
	sum := uint32(len(body)) + icmpv6
	for _, part := range [][]byte{src[:], dst[:], body} {
		for i := 0; i+1 < len(part); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(part[i:]))
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
