package linux

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// said is a packet of a station on a link: a claim that the station has an address. With
// probe, it is a question of a station that will take the address if no station has it.
type said struct {
	link  int
	addr  netip.Addr
	mac   [6]byte
	probe bool
}

// understand parses a packet from this station.
func understand(protocol uint16, packet []byte, from [6]byte) (w said, ok bool) {
	if protocol == unix.ETH_P_ARP {
		w, ok = understandARP(packet)
	} else {
		w, ok = understandNeighbor(packet, from)
	}
	return w, ok && w.addr.IsValid() && !w.addr.IsUnspecified() && !w.addr.IsMulticast()
}

// understandARP parses requests and replies alike. In both, the sender announces its own
// address. If a request has no sender address, it probes for the target (RFC 5227 section
// 1.1). The MAC is the one in the packet, which neighbors cache, not the one of the frame.
func understandARP(b []byte) (w said, ok bool) {
	if len(b) < sizeofARP || [6]byte(b) != ethernetIPv4 {
		return w, false
	}
	operation := binary.BigEndian.Uint16(b[6:])
	sender, target := netip.AddrFrom4([4]byte(b[14:])), netip.AddrFrom4([4]byte(b[24:]))
	w = said{addr: sender, mac: [6]byte(b[8:])}
	if sender.IsUnspecified() && operation == arpRequest {
		w.addr, w.probe = target, true
	}
	return w, operation == arpRequest || operation == arpReply
}

// understandNeighbor parses a Neighbor Advertisement, in which the sender announces the
// target, or a Neighbor Solicitation. In a solicitation the sender announces its source
// address; if it has none, it probes for the target (RFC 4862 section 5.4.3). The function
// accepts what RFC 4861 section 7.1 accepts.
func understandNeighbor(b []byte, from [6]byte) (w said, ok bool) {
	const targetEnd = 24
	if len(b) < sizeofIPv6+targetEnd || b[6] != icmpv6 || b[7] != ownSegment {
		return w, false
	}
	source, destination := netip.AddrFrom16([16]byte(b[8:])), netip.AddrFrom16([16]byte(b[24:]))
	length := int(binary.BigEndian.Uint16(b[4:]))
	if length < targetEnd || length%8 != 0 || sizeofIPv6+length > len(b) {
		return w, false
	}
	body := b[sizeofIPv6 : sizeofIPv6+length]
	if body[1] != 0 || checksum(source, destination, body) != 0 {
		return w, false
	}
	w = said{addr: netip.AddrFrom16([16]byte(body[8:])), mac: from}
	var option byte = targetLinkLayer
	switch {
	case body[0] == neighborSolicitation && source.IsUnspecified():
		w.probe = true
	case body[0] == neighborSolicitation:
		w.addr, option = source, sourceLinkLayer
	case body[0] != neighborAdvertisement:
		return w, false
	}
	mac, there, ok := linkLayer(body[targetEnd:], option)
	if there && !w.probe {
		w.mac = mac
	}
	return w, ok
}

// linkLayer returns the Ethernet address in the options. ok is false if the options are
// malformed.
func linkLayer(options []byte, want byte) (mac [6]byte, there, ok bool) {
	for len(options) >= 8 {
		size := 8 * int(options[1])
		if size == 0 || size > len(options) {
			return mac, there, false
		}
		if options[0] == want && size == 8 {
			mac, there = [6]byte(options[2:]), true
		}
		options = options[size:]
	}
	return mac, there, true
}
