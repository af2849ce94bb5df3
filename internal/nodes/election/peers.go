package election

import "net/netip"

// Peers is what this node knows of all nodes, itself included, at one moment. It is
// immutable.
type Peers struct {
	// Members are the live nodes, sorted.
	Members []Member
	// Known are the subnets of all known nodes, dead or alive, sorted. An address
	// in one of them is a local address.
	Known []netip.Prefix
	// Own maps the own addresses of nodes, dead or alive, to the node. No other node may announce
	// such an address.
	Own map[netip.Addr]string
	// MACs maps the Ethernet addresses of nodes, dead or alive, to the node. They
	// distinguish the answer of a node from that of a foreign machine. An address that several
	// nodes claim is missing: at most one of these claims is true.
	MACs map[[6]byte]string
	// Trusted says that Members and Known lack only nodes that are gone. If it is
	// false, a missing node proves nothing: this node takes no new address, and
	// gives none up.
	Trusted bool
}
