package linux

import "golang.org/x/sys/unix"

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

// filterFor returns a filter that passes packets which may be about addresses with these
// numbers on these links.
//
// Most broadcasts in a segment are about other addresses. The filter drops them.
//
// It also drops packets for other hosts, which arrive if the link is promiscuous. The
// kernel also marks a packet from a VLAN without a link as a packet for other hosts. If
// there are more links than a jump can skip, the filter does not check the link. The reader
// must check it.
func filterFor(protocol uint16, links []int, numbers []span) filter {
	if len(links) == 0 {
		return filter{}.end(0)
	}
	var f filter
	if len(links) <= maxFilterLinks {
		f = f.load(unix.BPF_W, packetLink).oneOf(links...)
	}
	f = f.load(unix.BPF_W, packetType).oneOf(unix.PACKET_HOST, unix.PACKET_BROADCAST, unix.PACKET_MULTICAST)
	if protocol == unix.ETH_P_ARP {
		return f.load(unix.BPF_H, atARPOperation).oneOf(arpRequest, arpReply).senderOrProbe(atARPSender, atARPTarget, numbers)
	}
	advertised := filter{}.load(unix.BPF_W, atNeighborTarget).take(numbers).end(0)
	return f.load(unix.BPF_B, atProtocol).oneOf(icmpv6).
		load(unix.BPF_B, atHopLimit).oneOf(ownSegment).
		load(unix.BPF_B, atType).oneOf(neighborSolicitation, neighborAdvertisement).
		either(neighborAdvertisement, advertised).
		senderOrProbe(atIPv6Source, atNeighborTarget, numbers)
}

// senderOrProbe passes the packet if its sender is in numbers, or if it has no sender and
// its target is in numbers. It drops all others.
func (f filter) senderOrProbe(sender, target uint32, numbers []span) filter {
	return f.load(unix.BPF_W, sender).take(numbers).oneOf(0).
		load(unix.BPF_W, target).take(numbers).end(0)
}

// either continues with then if the loaded word equals value. then must contain an end.
func (f filter) either(value int, then filter) filter {
	f = append(f, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(value), Jf: uint8(len(then))})
	return append(f, then...)
}

// take passes the packet if the loaded word is in one of spans, and continues otherwise.
func (f filter) take(spans []span) filter {
	length := 2 * len(spans)
	for i, s := range spans {
		left := length - 2*i - 2 // the number of instructions up to the last two
		f = append(f,
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K, K: s.last, Jt: 1},
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: s.first, Jt: uint8(left + 1), Jf: uint8(left + 2)})
	}
	return append(f, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JA, K: 1}).end(wholePacket)
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
