// Package announce decides which service addresses this node carries, on which
// of its interfaces and with which attributes, and what must change to get
// there from what the kernel says is there.
//
// It touches nothing. The state of the node goes in as a value (Node). The addresses that the
// node should carry come out as values (Address, Changes), each with its reason.
//
// Read the files in this order:
//
//	situation.go           what a decision depends on
//	wanted.go              Decide, for all Services
//	choose.go, decision.go the decision about one address, and its reasons
//	local.go, links.go     where on this node a local address belongs
//	diff.go, changes.go    from what the node has to what it should have
//	come.go, leave.go      when an address may come, and when it goes
//	addresses.go           what is remembered of an address between two passes
//	conflict.go            machines that answer for addresses of this node
package announce

import (
	"math"
	"net/netip"
	"time"

	"purelb.io/purelb/internal/addr"
)

// Forever is the lifetime of an address that does not expire.
const Forever = time.Duration(math.MaxInt64)

// Mark identifies addresses of PureLB in the kernel.
const Mark = addr.Mark

// Address is a service address as it is, or as it should be, on a link.
type Address struct {
	// Prefix is the address with the mask that it has on the link.
	Prefix netip.Prefix
	// Link is the name of the interface.
	Link string
	// Valid and Preferred are lifetimes: what to set for a wanted address,
	// what is left for one that was found. A Preferred of 0 is a deprecated
	// address (RFC 4862): still answered, never chosen as a source.
	Valid, Preferred time.Duration
	// NoPrefixRoute is IFA_F_NOPREFIXROUTE: no connected route for Prefix.
	NoPrefixRoute bool
	// NoDAD is IFA_F_NODAD: usable at once, no duplicate address detection.
	NoDAD bool
	// LinkScope is the scope of an IPv4 address that is only for its link (RT_SCOPE_LINK). It is answered
	// like any other, and the kernel does not choose it as the source for machines behind a router.
	LinkScope bool
	// Anew says to take an address off first and add it again, so that it comes after all
	// others of its network.
	Anew bool
	// Adopted says of a found address without a mark that it is ours nevertheless. The kernel does not know
	// that: see Adopt.
	Adopted bool
	// Join says that the kernel keeps marks, and has the address without one, and that it is ours
	// nevertheless.
	Join bool
	// Shared says of a found address without a mark that the user of its Service asks PureLB to adopt it: PureLB
	// has the address beside the program that put it there. The kernel does not know that: see Share.
	Shared bool
	// Tentative and Failed are the results of duplicate address detection,
	// for found addresses only.
	Tentative, Failed bool
	// Secondary says that a found IPv4 address shares its network with an earlier
	// one of the link, to which the connected route belongs.
	Secondary bool
	// Mark is IFA_PROTO of a found address, 0 when it has none.
	Mark uint8
}

// Link is an interface of this node.
type Link struct {
	Name  string
	Index int
	// Kind is the kernel's name for the driver ("dummy", "ifb", "veth",
	// "bond"), or "" for hardware.
	Kind string
	// MAC is the Ethernet address, zero where there is none.
	MAC [6]byte
	// Neighbors says that the hosts on the link are found by ARP and Neighbor
	// Discovery.
	Neighbors bool
	// Made says that an agent made the link for remote addresses.
	Made bool
	// Up is the administrative state; Carrier says whether the link works. Flaps counts the changes
	// of the carrier.
	Up, Carrier bool
	Flaps       uint32
	// Master is the index of the bridge, bond, team or VRF that the link is part of, 0 for
	// none.
	Master int
	// Silent says that no machine answers there, although nodes should. The kernel does not
	// know that: the agent sets it.
	Silent bool
	// Default4 and Default6 say that the best default route of the family
	// leaves by this link (a multipath route by several).
	Default4, Default6 bool
}

// Works reports whether any machine can be reached by the link.
func (l Link) Works() bool { return l.Up && l.Carrier && !l.Silent }

// leadsNowhere reports whether the link has no other end.
func (l Link) leadsNowhere() bool {
	return l.Name == "lo" || l.Name == ipvsLink || l.Kind == "dummy" || l.Kind == "ifb"
}

// Node is the state of this node in the kernel. It is always complete.
type Node struct {
	Links []Link
	// Addresses are all addresses of all links, ours and others.
	Addresses []Address
	// Former are the networks that the node had a moment ago. The kernel does not know them: the
	// agent sets them (see Networks).
	Former []Former
	// Networks are the networks of routes without a gateway, sorted by link: machines there are
	// neighbors on the link, even if the node has no address with that network.
	Networks []Network
	// Gateways are the routers of the node's default routes, sorted. Routers with only a known
	// link-local address are left out.
	Gateways []netip.Addr
	// LooseARP says that the kernel answers ARP requests on some link for addresses that it has
	// on other links: net.ipv4.conf.*.arp_ignore is 0.
	LooseARP bool
	// AnySender says that the kernel asks on some link with any of the node's addresses as the sender:
	// net.ipv4.conf.*.arp_announce is 0.
	AnySender bool
	// MarksSupported says whether this kernel keeps IFA_PROTO. If it does, an address without
	// Mark is not ours, unless an earlier generation of PureLB left it (see Adopt).
	MarksSupported bool
}

// Network is a network that a route shows on a link.
type Network struct {
	Link   string
	Prefix netip.Prefix
	// ByKernel says that the kernel made the route: for an address, which may be one of ours, or for a
	// prefix of a router advertisement.
	ByKernel bool
}

// byName returns the links of n by name. A node with many pods has many links.
func (n Node) byName() map[string]Link {
	links := make(map[string]Link, len(n.Links))
	for _, l := range n.Links {
		links[l.Name] = l
	}
	return links
}
