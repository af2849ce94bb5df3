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

// filterFor lets through what may tell of addresses on these links.
//
// A packet for other hosts has no place here, also where the link takes in all
// that passes; and the kernel says of one from a VLAN for which there is no
// link, tag taken off, that it is for other hosts. When there are more links
// than a jump reaches over, the reader has to tell them apart.
func filterFor(protocol uint16, links []int) filter {
	if len(links) == 0 {
		return filter{}.end(0)
	}
	var f filter
	if len(links) <= maxFilterLinks {
		f = f.load(unix.BPF_W, packetLink).oneOf(links...)
	}
	f = f.load(unix.BPF_W, packetType).oneOf(unix.PACKET_HOST, unix.PACKET_BROADCAST, unix.PACKET_MULTICAST)
	if protocol == unix.ETH_P_ARP {
		f = f.load(unix.BPF_H, 6).oneOf(arpRequest, arpReply)
	} else {
		f = f.load(unix.BPF_B, 6).oneOf(icmpv6).
			load(unix.BPF_B, 7).oneOf(ownSegment).
			load(unix.BPF_B, sizeofIPv6).oneOf(neighborSolicitation, neighborAdvertisement)
	}
	return f.end(wholePacket)
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
