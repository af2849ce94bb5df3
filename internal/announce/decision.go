package announce

import (
	"net/netip"
	"time"

	"purelb.io/purelb/internal/nodes/election"
)

// Where says how an address is announced on this node.
type Where string

const (
	// Nowhere means not on this node.
	Nowhere Where = ""
	// Local means on an interface of the address's network, on one node only.
	Local Where = "local"
	// Remote means on the dummy interface, on every node.
	Remote Where = "remote"
)

// Reasons of decisions.
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
	// ReasonNodeAddress: the node already has it, and PureLB did not put it there.
	ReasonNodeAddress = "nodeAddress"
	ReasonNoCarrier   = "noCarrier"
	// ReasonNoKubeProxy: the node's kube-proxy does not forward the packets of the address yet.
	ReasonNoKubeProxy = "kubeProxyNotReady"
)

// BecauseNoNode says of a remote address with ReasonNoEndpoints that no node has an endpoint.
const BecauseNoNode = "noEndpointsOnAnyNode"

// Decision is what this node does with one address of one Service, and why.
type Decision struct {
	Service string
	IP      netip.Addr
	Where   Where
	Reason  string
	// Winner is the node that announces a local address, as far as is known. Because is the
	// reason that package election gives.
	Winner, Because string
	// HandTo is set for a local address that is here and must go. It is the Winner, which is
	// alive and can be asked to take the address first.
	HandTo string
	// Dark says that the address is only on a link without a carrier, where no client gets an
	// answer. It goes at once, even if another node is asked to take it.
	Dark bool
	// Used says that some node is known to have announced a local address. Named is the node
	// whose slot names it now.
	Used  bool
	Named string
	// Message explains some reasons further, or says what is wrong with an address that is
	// announced nevertheless.
	Message string
	// Better is a node that should have the local address rather than this one, which has it, if its group
	// lets addresses go back. It must be able to have the address for After before the address goes.
	Better string
	After  time.Duration
	// Voluntary says that the address goes back. It stays if the Winner does not take it.
	Voluntary bool
	// AnswersBy is the link by which clients outside of the network of a local address get their
	// answers, if it is another one than that of the address. The kernel may have rules that say
	// otherwise.
	AnswersBy string
	// Address is the wanted address, unless Where is Nowhere.
	Address Address
}

// Plan is what this node should carry.
type Plan struct {
	// Decisions are in order of Service, and for each of them in the order of
	// its addresses.
	Decisions []Decision
	// Wanted holds the addresses to carry, each once.
	Wanted []Address
}

// Withheld reports whether no node announces the address, and none should: its Services have
// no endpoint that may be reached by it.
func (d Decision) Withheld() bool {
	return d.Reason == ReasonIdle || d.Reason == ReasonNoEndpoints && (d.Because == BecauseNoNode || d.Because == election.ReasonNoEndpoints)
}

// Locals returns the decisions on local addresses that belong on this node.
func (p Plan) Locals() map[netip.Addr]*Decision {
	all := map[netip.Addr]*Decision{}
	for i := range p.Decisions {
		if d := &p.Decisions[i]; d.Where == Local {
			all[d.IP] = d
		}
	}
	return all
}

// givenUp reports whether the address goes even if this node knows too little of the cluster. The
// node finds the reason by itself.
func (d Decision) givenUp() bool { return d.Reason == ReasonNoCarrier }
