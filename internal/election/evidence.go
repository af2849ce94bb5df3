package election

import (
	"net/netip"
	"time"
)

// Record is what a node says of itself.
type Record struct {
	Node    string
	Subnets []netip.Prefix
	Own     []netip.Addr
	// MACs are the Ethernet addresses of the node. Only its Lease has them.
	MACs     [][6]byte
	Draining bool
}

// State is what gossip thinks of a node.
type State int

const (
	// Alive is a node that answers, or that is only suspected not to.
	Alive State = iota
	// Dead is a node that stopped answering.
	Dead
	// Left is a node whose agent said goodbye.
	Left
)

// Gossiped is what gossip says of a node.
type Gossiped struct {
	Record
	// Truncated says that the Record is not all that the node has to say, and
	// that its Lease has the rest.
	Truncated bool
	State     State
	// Since is when the node came into this State, by our clock.
	Since time.Time
	// Unheard is zero, unless the node is Alive, others were lost, and it is not known
	// whether the node is beside them or beside this one: then it is since when.
	Unheard time.Time
}

// Leased is what the Lease of a node says.
type Leased struct {
	Record
	// Alive and Renewed are what Liveness says, by what it saw while Leases
	// were watched.
	Alive   bool
	Renewed time.Time
	// Unconfigured says that no LBNodeAgent is in force on the node.
	Unconfigured bool
	// Slow says that the node renews its Lease seldom, and that the Lease counts for
	// minutes.
	Slow bool
}

// Evidence is all that tells this node of the others.
type Evidence struct {
	Self string
	// Gossip is about every node that gossip remembers, dead or alive, each
	// once.
	Gossip []Gossiped
	// Leases are all that are known, each once.
	Leases []Leased
	// LeasesTrusted says that Leases are watched now, and that there is
	// contact with the API server: one that is silent, or not there, is of
	// nobody.
	LeasesTrusted bool
	// Contact is the latest proof of contact with the API server. Package
	// membership asks for one after each doubtful loss.
	Contact time.Time
	// Settled says that all others have had the time to learn of this node,
	// and it of them.
	Settled bool
}

const (
	// Together is how close to each other losses are to count as one: a
	// machine that is cut off finds its peers lost one after the other.
	Together = 15 * time.Second
	// Late is how much later than by gossip we may see what a node did before
	// it died.
	Late = time.Second
	// Patience is how long the proof of contact may be asked for before a
	// node that has lost most of its peers thinks that it is cut off.
	Patience = 5 * time.Second
)
