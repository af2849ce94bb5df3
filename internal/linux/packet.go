package linux

import (
	"encoding/binary"
	"net/netip"
)

const (
	arpRequest = 1
	arpReply   = 2

	icmpv6                = 58
	neighborAdvertisement = 136
	override              = 0x20
	targetLinkLayer       = 2
)

// gratuitousARP is an ARP packet for Ethernet in which mac says that it has
// addr, to all and unasked: sender and target are the same address.
//
// In a request the target's hardware address means nothing and is zero (RFC
// 5227 section 2.3). In a reply it is the address to cache (RFC 5944 section
// 4.6), by which receivers tell it from an answer.
func gratuitousARP(operation uint16, mac [6]byte, addr netip.Addr) []byte {
	ip := addr.As4()
	var target [6]byte
	if operation == arpReply {
		target = mac
	}
	b := []byte{
		0, 1, // Ethernet
		8, 0, // IPv4
		6, 4, // length of the addresses
	}
	b = binary.BigEndian.AppendUint16(b, operation)
	b = append(b, mac[:]...)
	b = append(b, ip[:]...)
	b = append(b, target[:]...)
	return append(b, ip[:]...)
}

// unsolicitedNA is an IPv6 packet to all nodes in which mac says that it has
// addr, and that whoever has another entry should override it (RFC 4861 section
// 7.2.6).
func unsolicitedNA(mac [6]byte, source, addr netip.Addr) []byte {
	target := addr.As16()
	body := append([]byte{neighborAdvertisement, 0, 0, 0, override, 0, 0, 0}, target[:]...)
	body = append(body, targetLinkLayer, 1)
	body = append(body, mac[:]...)
	binary.BigEndian.PutUint16(body[2:], checksum(source, allNodes, body))
	return append(headerIPv6(source, allNodes, len(body)), body...)
}

// allNodes is the group of every node on the link.
var allNodes = netip.MustParseAddr("ff02::1")

// headerIPv6 is for ICMPv6. The hop limit proves to the receiver that no
// router was on the way.
func headerIPv6(source, destination netip.Addr, length int) []byte {
	src, dst := source.As16(), destination.As16()
	b := []byte{6 << 4, 0, 0, 0, byte(length >> 8), byte(length), icmpv6, 255}
	b = append(b, src[:]...)
	return append(b, dst[:]...)
}

// checksum is that of ICMPv6: over a pseudo header (RFC 8200 section 8.1) and
// the message, whose own checksum is still 0.
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
