package election

import (
	"net/netip"
	"time"
)

// Record is what a node says about itself.
type Record struct {
	Node    string
	Subnets []netip.Prefix
	Own     []netip.Addr
	// MACs are the Ethernet addresses of the node. Only its Lease has them.
	MACs     [][6]byte
	Draining bool
}

// State is the state of a node according to gossip.
type State int

const (
	// Alive is a node that answers, or that is only suspected.
	Alive State = iota
	// Dead is a node that stopped answering.
	Dead
	// Left is a node whose agent has announced its end in gossip.
	Left
)

// Gossiped is what gossip knows of a node.
type Gossiped struct {
	Record
	// Truncated says that the Record lacks a part, which the node's Lease has.
	Truncated bool
	// Digest is a digest of the node's Lease. It is 0 if the agent sends none.
	Digest uint64
	State  State
	// Since is when the node entered this State, by our clock.
	Since time.Time
	// Unheard is the start of a time of doubt: gossip has lost other nodes, and cannot tell yet
	// whether this node is on our side of the cut. The node is Alive. Otherwise Unheard is zero.
	Unheard time.Time
}

// Leased is what the Lease of a node says.
type Leased struct {
	Record
	// Alive and Renewed come from Liveness, which watched the Leases.
	Alive   bool
	Renewed time.Time
	// Unconfigured says that no LBNodeAgent is in force on the node.
	Unconfigured bool
	// Slow says that the node renews its Lease rarely, so that the Lease counts for
	// minutes.
	Slow bool
}

// Evidence is everything that this node knows of the others.
type Evidence struct {
	Self string
	// Gossip has one entry for each node that gossip remembers, dead or alive.
	Gossip []Gossiped
	// Leases has one entry for each known Lease.
	Leases []Leased
	// LeasesTrusted says that Leases are being watched, and that there is contact
	// with the API server. A node whose Lease is missing or no longer renewed is
	// then gone.
	LeasesTrusted bool
	// Contact is the latest proof of contact with the API server. Package
	// membership asks for one after each doubtful loss.
	Contact time.Time
	// Settled says that enough time has passed for all other nodes to learn of this
	// node, and for this node to learn of them.
	Settled bool
}

const (
	// Together is the time within which losses count as one loss: a machine that is
	// cut off loses its peers one after the other.
	Together = 15 * time.Second
	// Late is the delay with which this node may see the last actions of a dead
	// node. Gossip reports the death earlier.
	Late = time.Second
	// Patience is how long a node that has lost most of its peers asks for a proof
	// of contact before it counts itself as cut off.
	Patience = 5 * time.Second
)
