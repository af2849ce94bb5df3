package election

import "net/netip"

// Peers is what this node knows of all nodes, itself included, at one moment.
// It is immutable.
type Peers struct {
	// Members are the live ones, sorted by node.
	Members []Member
	// Known are the subnets of all nodes that are known of, dead or alive,
	// sorted: an address in one of them is a local address.
	Known []netip.Prefix
	// Own are the addresses that nodes have themselves, dead or alive, with
	// the node: no other may announce one.
	Own map[netip.Addr]string
	// MACs are the Ethernet addresses of nodes, dead or alive, with the node: they tell
	// an answer of a node from one of another machine.
	MACs map[[6]byte]string
	// Trusted says that nobody is missing from Members and Known for any
	// other reason than being gone. When it is false nothing may be
	// concluded from who is missing: nothing new is taken, and nothing that
	// is held is given up.
	Trusted bool
	// CutOff says that this node is the one that is missing: the others may
	// take what it holds, so it gives that up.
	CutOff bool
}
