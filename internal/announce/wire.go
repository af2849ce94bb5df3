package announce

import (
	"net/netip"
	"time"
)

// Probing says how to probe a segment for an address: Count times, with Interval between the
// packets, and a wait for answers of Wait after the last one. RFC 5227 has 3 packets,
// intervals of 1 to 2 s and a wait of 2 s. RFC 4862 has one packet and a wait of 1 s. These
// are for networks of any kind. Machines on a wired segment answer within milliseconds.
//
// A probe names no sender, so that it does no harm if this node is wrong. Switches and
// bridges that suppress ARP and Neighbor Discovery drop such packets. So this node also sends
// an ordinary request for the address. The request comes from the first address of Sources in
// the same network: an address that this node has on the link, with its network.
type Probing struct {
	Count          int
	Interval, Wait time.Duration
	Sources        []netip.Prefix
	// Requests says to send only ordinary requests, where there is a source.
	Requests bool
	// Everyone says to repeat the question for answered addresses too: of several machines
	// that answer only one has the address, and its answer may get lost.
	Everyone bool
}

// SourceFor returns the address to send requests for ip from, if there is one.
func (p Probing) SourceFor(ip netip.Addr) (source netip.Addr, ok bool) {
	for _, s := range p.Sources {
		if s.Contains(ip) && s.Addr() != ip {
			return s.Addr(), true
		}
	}
	return netip.Addr{}, false
}

// SourcesOn returns the addresses that node may send requests from on link: its own addresses
// there that other machines can reach, with their networks. Addresses of Services are left
// out, because a request from an address claims it. Deprecated addresses come last (RFC
// 6724). adopt is as for Diff.
func SourcesOn(link string, node Node, adopt func(Address) bool) []netip.Prefix {
	var sources, deprecated []netip.Prefix
	for _, a := range node.Addresses {
		switch {
		case a.Link != link || !node.showsNetwork(a, adopt):
		case a.Preferred == 0:
			deprecated = append(deprecated, a.Prefix)
		default:
			sources = append(sources, a.Prefix)
		}
	}
	return append(sources, deprecated...)
}

// Heard is a packet in which another station names an address that is here.
type Heard struct {
	Link string
	Addr netip.Addr
	// MAC is the machine that says that it has the address, or wants it.
	MAC [6]byte
	// Probe says that the machine only asks whether another machine has the address, as it
	// should before it takes the address. The kernel answers it.
	Probe bool
	// At is when the packet came.
	At time.Time
}
