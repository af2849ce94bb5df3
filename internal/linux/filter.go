package linux

import "golang.org/x/sys/unix"

const (
	// aboutPacket is SKF_AD_OFF of linux/filter.h: loads from here on are not
	// of the packet but of what the kernel knows about it.
	aboutPacket = 0xfffff000
	packetType  = aboutPacket + 4 // SKF_AD_PKTTYPE
	packetLink  = aboutPacket + 8 // SKF_AD_IFINDEX

	// maxFilterLinks is how far a jump reaches, less the jump over the end.
	maxFilterLinks = 250
	// wholePacket is more than any packet that passes.
	wholePacket = 0xffff
)

// filter is a program that the kernel runs for each packet, before anything is
// copied: classic BPF.
type filter []unix.SockFilter

// Where packets have what they are about. That of IPv6 is the last word of an address.
const (
	atARPOperation, atARPSender, atARPTarget     = 6, 14, 24
	atProtocol, atHopLimit, atIPv6Source, atType = 6, 7, 20, sizeofIPv6
	atNeighborTarget                             = sizeofIPv6 + 20
)

// filterFor lets through what may tell of addresses with these numbers on these links.
//
// Most of what hosts of a segment say to all is about other addresses, and ends here.
//
// A packet for other hosts has no place here, also where the link takes in all
// that passes; and the kernel says of one from a VLAN for which there is no
// link, tag taken off, that it is for other hosts. When there are more links
// than a jump reaches over, the reader has to tell them apart.
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

// senderOrProbe takes the packet when numbers has its sender, or when it has no sender and
// numbers has its target. It drops all others.
func (f filter) senderOrProbe(sender, target uint32, numbers []span) filter {
	return f.load(unix.BPF_W, sender).take(numbers).oneOf(0).
		load(unix.BPF_W, target).take(numbers).end(0)
}

// either goes on with then, which has an end, when what was loaded is value.
func (f filter) either(value int, then filter) filter {
	f = append(f, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(value), Jf: uint8(len(then))})
	return append(f, then...)
}

// take takes the packet when one of spans has what was loaded, and goes on otherwise.
func (f filter) take(spans []span) filter {
	length := 2 * len(spans)
	for i, s := range spans {
		left := length - 2*i - 2 // instructions until the last two
		f = append(f,
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K, K: s.last, Jt: 1},
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: s.first, Jt: uint8(left + 1), Jf: uint8(left + 2)})
	}
	return append(f, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JA, K: 1}).end(wholePacket)
}

func (f filter) load(size uint16, at uint32) filter {
	return append(f, unix.SockFilter{Code: unix.BPF_LD | unix.BPF_ABS | size, K: at})
}

// oneOf goes on when what was loaded is one of these, and drops the packet
// otherwise.
func (f filter) oneOf(values ...int) filter {
	for i, v := range values {
		f = append(f, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(v), Jt: uint8(len(values) - i)})
	}
	return f.end(0)
}

// end takes that many bytes of the packet; none drops it.
func (f filter) end(bytes uint32) filter {
	return append(f, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: bytes})
}
