package election

import (
	"net/netip"
	"time"
)

// Record is what a node says about itself.
type Record struct {
	Node string
	// Subnets are the subnets of the node's links that may carry local addresses. Own are the node's
	// own addresses.
	Subnets []netip.Prefix
	Own     []netip.Addr
	// MACs are the Ethernet addresses of the node. Only its Lease has them.
	MACs [][6]byte
	// Draining asks the election to prefer other nodes.
	Draining bool
	// Truncated says that gossip could not carry all Subnets and Own, which the node's Lease has.
	Truncated bool
	// Digest is a digest of the node's Lease in gossip, and changes with the Lease. It is 0 if the agent
	// has not read its networks yet.
	Digest uint64
}

// State is the state of a node according to gossip.
type State int

const (
	// Alive is a node that answers, or that is only suspected.
	Alive State = iota
	// Dead is a node that stopped answering.
	Dead
	// Left is a node whose agent has announced in gossip that it stops.
	Left
)

func (s State) String() string { return [...]string{"alive", "dead", "left"}[s] }

// Gossiped is what gossip knows of a node.
type Gossiped struct {
	Record
	State State
	// Since is when the node entered this State, by our clock.
	Since time.Time
	// Lost is when gossip lost this Alive node, if it was lost before Since. Otherwise it is zero.
	Lost time.Time
	// Unheard is when gossip lost other nodes and began to doubt this Alive node: the node may be
	// on the other side of a network split. Without doubt, Unheard is zero.
	Unheard time.Time
}

// Leased is what the Lease of a node says.
type Leased struct {
	Record
	// The Lease was renewed after the time Renewed, which is zero if this node saw no renewal.
	Alive   bool
	Renewed time.Time
	// Unable are addresses that the node cannot add, or that do not stay there.
	Unable []netip.Addr
	// Weights are the weights of the node, by the Refs of groups.
	Weights map[string]int
	// Unconfigured says that no LBNodeAgent is in force on the node.
	Unconfigured bool
	// Slow says that the node renews its Lease rarely. Such a Lease is valid for minutes.
	Slow bool
}

// Evidence is everything that this node knows of the others.
type Evidence struct {
	Self string
	// Gossip has one entry for each node that gossip remembers, dead or alive.
	Gossip []Gossiped
	// Leases has one entry for each known Lease.
	Leases []Leased
	// LeasesTrusted says that this node polls the Leases and has contact with the API server.
	// Only then does a Lease that is missing or no longer renewed prove that its node is gone.
	LeasesTrusted bool
	// Contact is the time of the latest proof of contact with the API server. After a doubtful loss
	// comes a new one: this node renews its Lease, or polls those of others.
	Contact time.Time
	// Settled says that enough time has passed for all other nodes to learn of this
	// node, and for this node to learn of them.
	Settled bool
}

const (
	// Together is the time within which several losses are one loss. A machine that is cut off
	// loses its peers one after the other.
	Together = 15 * time.Second
	// Rejoining is the time within which gossip finds all live nodes again, after it was cut off and
	// hears the first of them.
	Rejoining = 15 * time.Second
	// Late is the delay with which this node may see the last actions of a dead
	// node. Gossip reports the death earlier.
	Late = time.Second
)
