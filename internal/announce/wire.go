package announce

import (
	"net/netip"
	"slices"
	"time"

	"purelb.io/purelb/internal/addr"
)

// Probing says how to probe a segment for an address: Count times, with Interval between the
// packets, and a wait for answers of Wait after the last one. RFC 5227 has 3 packets,
// intervals of 1 to 2 s and a wait of 2 s. RFC 4862 has one packet and a wait of 1 s. These
// are for networks of any kind. Machines on a wired segment answer within milliseconds.
//
// A probe names no sender, so that it does no harm if this node is wrong. Switches and
// bridges that suppress ARP and Neighbor Discovery drop such packets. So this node also sends
// an ordinary request for the address. The request comes from the first of Sources for its network.
type Probing struct {
	Count          int
	Interval, Wait time.Duration
	Sources        []Source
	// Requests says to send only ordinary requests, where there is a source.
	Requests bool
	// Known are Ethernet addresses of machines. The requests to these go to them alone, and not to all
	// machines of the segment.
	Known map[netip.Addr][6]byte
	// Everyone says to repeat the question for answered addresses too: of several machines
	// that answer only one has the address, and its answer may get lost.
	Everyone bool
}

// SourceFor returns the address to send requests for ip from, if there is one.
func (p Probing) SourceFor(ip netip.Addr) (source netip.Addr, ok bool) {
	for _, s := range p.Sources {
		if s.Network.Contains(ip) && s.Addr != ip {
			return s.Addr, true
		}
	}
	return netip.Addr{}, false
}

// Source is an address of this node on a link, and the network about whose addresses it may ask.
type Source struct {
	Addr    netip.Addr
	Network netip.Prefix
}

// SourcesOn returns the addresses that the node of s may send requests from on link: its own addresses
// there that other machines can reach, with their networks. An address without a network has that of a
// route. If the node has no address in the network of a route, or in one that the LBNodeAgent adds, its
// first address of that family asks. Addresses of Services are left out, because a request from an
// address claims it. Deprecated addresses come last (RFC 6724).
func SourcesOn(link string, s Situation) []Source {
	var own []netip.Prefix
	for _, deprecated := range []bool{false, true} {
		for _, a := range s.Node.Addresses {
			if a.Link == link && (a.Preferred == 0) == deprecated && s.Node.usable(a) {
				own = append(own, a.Prefix)
			}
		}
	}
	var sources []Source
	for _, p := range own {
		if !p.IsSingleIP() {
			sources = append(sources, Source{p.Addr(), p.Masked()})
		}
	}
	for _, network := range s.further(link) {
		if i := askFrom(own, network); i >= 0 {
			sources = append(sources, Source{own[i].Addr(), network})
		}
	}
	return sources
}

// further returns the networks of link that no address of the node shows.
func (s Situation) further(link string) []netip.Prefix {
	networks := s.Node.routed(link)
	if s.Agent == nil {
		return networks
	}
	for _, network := range s.Agent.Networks {
		if first := carriers(*s.Agent, s.Node.Links, addr.FamilyOf(network.Addr())); len(first) > 0 && first[0].Name == link {
			networks = append(networks, network)
		}
	}
	return networks
}

// askFrom returns the index of the address from which to ask about network: one inside of it, or else the
// first one of its family. It returns -1 if there is none.
func askFrom(own []netip.Prefix, network netip.Prefix) int {
	if i := slices.IndexFunc(own, func(p netip.Prefix) bool { return network.Contains(p.Addr()) }); i >= 0 {
		return i
	}
	return slices.IndexFunc(own, func(p netip.Prefix) bool { return p.Addr().Is4() == network.Addr().Is4() })
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
