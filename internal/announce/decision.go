package announce

import "net/netip"

// Where an address is announced on this node.
type Where string

const (
	// Nowhere is not on this node.
	Nowhere Where = ""
	// Local is on an interface of the address's network, on one node only.
	Local Where = "local"
	// Remote is on the dummy interface, on every node.
	Remote Where = "remote"
)

// Reasons of decisions, besides ReasonNodeAddress.
const (
	// Why it is announced here.
	ReasonElected = "electionWon"
	ReasonRemote  = "announcingNonLocal"
	ReasonKept    = "kept"
	// Why not.
	ReasonNoConfig        = "noConfig"
	ReasonLostElection    = "lostElection"
	ReasonNoEligibleNodes = "noEligibleNodes"
	ReasonNoInterface     = "noLocalInterface"
	ReasonNoEndpoints     = "noEndpoints"
	ReasonIdle            = "noEndpointsAnywhere"
	ReasonUndecided       = "undecided"
	ReasonCutOff          = "cutOff"
	ReasonNoCarrier       = "noCarrier"
)

// Decision is what this node does with one address of one Service, and why.
type Decision struct {
	Service string
	IP      netip.Addr
	Where   Where
	Reason  string
	// Winner is the node that announces a local address, as far as is known,
	// and Because is the reason of package election for that.
	Winner, Because string
	// HandTo is set for a local address that is here and not to stay: the
	// Winner, which lives and can be asked to take it first.
	HandTo string
	// Dark says that it is here where nobody is answered, for want of a carrier:
	// whoever is asked to take it, it goes at once.
	Dark bool
	// Used says that some node is known to have announced a local address, and
	// Named is the one that says so now.
	Used  bool
	Named string
	// Message says more of some reasons, and what is wrong with an address that is
	// announced nevertheless.
	Message string
	// Address is what is wanted, unless Where is Nowhere.
	Address Address
}

// Plan is what this node should carry.
type Plan struct {
	// Decisions are in order of Service, and for each of them in the order of
	// its addresses.
	Decisions []Decision
	// Wanted are the addresses to carry, each once.
	Wanted []Address
}

// givenUp says that the address goes, whatever else there is to know: that nobody
// is reached is something that a node finds out by itself.
func (d Decision) givenUp() bool { return d.Reason == ReasonCutOff || d.Reason == ReasonNoCarrier }
