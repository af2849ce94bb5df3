package linux

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

const (
	// aboutPacket is SKF_AD_OFF of linux/filter.h. Loads from here on read metadata of the
	// kernel, not the packet.
	aboutPacket = 0xfffff000
	packetType  = aboutPacket + 4 // SKF_AD_PKTTYPE
	packetLink  = aboutPacket + 8 // SKF_AD_IFINDEX

	// maxFilterLinks is the range of a jump, minus the jump over the end.
	maxFilterLinks = 250
	// wholePacket is larger than every packet that passes.
	wholePacket = 0xffff
)

// filter is a classic BPF program. The kernel runs it for each packet before it copies
// anything.
type filter []unix.SockFilter

// The offsets of the relevant fields in packets. For IPv6, a number is the last word of an
// address.
const (
	atARPOperation, atARPSender, atARPTarget     = 6, 14, 24
	atProtocol, atHopLimit, atIPv6Source, atType = 6, 7, 20, sizeofIPv6
	atNeighborTarget                             = sizeofIPv6 + 20
)

// filterFor returns a filter that passes packets which may be in scope.
//
// Most broadcasts in a segment are about other addresses. The filter drops those outside of the span of
// the scope: the addresses of a pool lie together.
//
// It also drops packets for other hosts, which arrive if the link is promiscuous. The
// kernel also marks a packet from a VLAN without a link as a packet for other hosts. If
// there are more links than a jump can skip, the filter does not check the link. The reader
// must check it.
func filterFor(protocol uint16, scope scope) filter {
	links, about := scope.links, scope.about
	if len(links) == 0 {
		return filter{}.end(0)
	}
	var f filter
	if len(links) <= maxFilterLinks {
		f = f.load(unix.BPF_W, packetLink).oneOf(links...)
	}
	f = f.load(unix.BPF_W, packetType).oneOf(unix.PACKET_HOST, unix.PACKET_BROADCAST, unix.PACKET_MULTICAST)
	if protocol == unix.ETH_P_ARP {
		return f.load(unix.BPF_H, atARPOperation).oneOf(arpRequest, arpReply).senderOrProbe(atARPSender, atARPTarget, about)
	}
	advertised := filter{}.load(unix.BPF_W, atNeighborTarget).take(about).end(0)
	return f.load(unix.BPF_B, atProtocol).oneOf(icmpv6).
		load(unix.BPF_B, atHopLimit).oneOf(ownSegment).
		load(unix.BPF_B, atType).oneOf(neighborSolicitation, neighborAdvertisement).
		either(neighborAdvertisement, advertised).
		senderOrProbe(atIPv6Source, atNeighborTarget, about)
}

// senderOrProbe passes the packet if its sender is in about, or if it has no sender and its
// target is in about. It drops all others.
func (f filter) senderOrProbe(sender, target uint32, about span) filter {
	return f.load(unix.BPF_W, sender).take(about).oneOf(0).
		load(unix.BPF_W, target).take(about).end(0)
}

// either continues with then if the loaded word equals value. then must contain an end.
func (f filter) either(value int, then filter) filter {
	f = append(f, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(value), Jf: uint8(len(then))})
	return append(f, then...)
}

// take passes the packet if the loaded word is in the span, and continues otherwise.
func (f filter) take(s span) filter {
	return append(f,
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: s.first, Jf: 2},
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K, K: s.last, Jt: 1}).end(wholePacket)
}

func (f filter) load(size uint16, at uint32) filter {
	return append(f, unix.SockFilter{Code: unix.BPF_LD | unix.BPF_ABS | size, K: at})
}

// oneOf continues if the loaded word is one of values, and drops the packet otherwise.
func (f filter) oneOf(values ...int) filter {
	for i, v := range values {
		f = append(f, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(v), Jt: uint8(len(values) - i)})
	}
	return f.end(0)
}

// end passes this many bytes of the packet. With 0 it drops the packet.
func (f filter) end(bytes uint32) filter {
	return append(f, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: bytes})
}

// numberOf returns the last 32 bits of addr. For IPv4 that is the whole address.
func numberOf(addr netip.Addr) uint32 {
	b := addr.AsSlice()
	return binary.BigEndian.Uint32(b[len(b)-4:])
}
