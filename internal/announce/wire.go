package announce

import (
	"net/netip"
	"time"
)

// Probing is how to ask a segment who has an address: Count times, each
// Interval after the one before, and then to listen for Wait more. RFC 5227 has
// 3 times, 1 to 2 s and 2 s, and RFC 4862 has once and 1 s, for networks of any
// kind; a wired segment answers within milliseconds.
//
// A probe names no sender, so that it does no harm if the sender is mistaken. Switches
// and bridges that suppress ARP and Neighbor Discovery do not pass such questions on.
// So an address is asked for in an ordinary request too, from the first of Sources in
// whose network it is: an address that this node has on the link, with its network.
type Probing struct {
	Count          int
	Interval, Wait time.Duration
	Sources        []netip.Prefix
	// Requests says to ask in ordinary requests alone, where there is a source.
	Requests bool
	// Everyone says to ask each time also for what was answered: of several machines that
	// answer only one has the address, and its answer may get lost.
	Everyone bool
}

// SourceFor returns the address to ask for ip from, if there is one.
func (p Probing) SourceFor(ip netip.Addr) (source netip.Addr, ok bool) {
	for _, s := range p.Sources {
		if s.Contains(ip) && s.Addr() != ip {
			return s.Addr(), true
		}
	}
	return netip.Addr{}, false
}

// SourcesOn returns what node may ask from on link: its own addresses there that others
// can reach, with their networks. Ours are none, for to ask from an address is to claim
// it. Deprecated ones come last (RFC 6724). Adopt is as for Diff.
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

// Heard is something that another station said on the wire about an address
// that is here.
type Heard struct {
	Link string
	Addr netip.Addr
	// MAC is who says that it has the address, or wants it.
	MAC [6]byte
	// Probe says that it only asks whether somebody has the address, as it
	// should before it takes one. It gets its answer from the kernel.
	Probe bool
}
