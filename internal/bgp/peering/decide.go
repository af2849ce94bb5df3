package peering

import (
	"net/netip"
	"slices"
	"time"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/addr"
)

// Node is what Decide needs to know of this node.
type Node struct {
	Name                     string
	Labels, Annotations      map[string]string
	InternalIPs, ExternalIPs []netip.Addr
	// Gateways holds the default gateways of the families that GatewayFamilies returns.
	Gateways map[addr.Family]Gateway
	// Own are the prefixes that only nodes of this cluster may announce: the prefixes of its pools,
	// and the addresses of Services that are in no pool.
	Own []PrefixRange
	// Restricted has the neighbors that get the routes of certain groups, sorted by group.
	Restricted []Restriction
	// Draining says that routes ask routers to prefer other nodes. No advertisement removes that request.
	Draining bool
	// NoExtendedNextHop holds the names of neighbors without the capability to take IPv4 routes
	// with IPv6 next hops (RFC 8950). A neighbor that has not sent its capabilities yet is not
	// among them: after a restart of the speaker it must get these routes at once, or it would drop
	// the routes that it kept.
	NoExtendedNextHop map[string]bool
}

// Secrets returns the value for a reference. The error says what is wrong with it, such as
// `secret purelb-system/x has no key "password"`.
type Secrets func(name, key string) (string, error)

// Egress is the Interface through which this node reaches a neighbor. Addresses are the global
// addresses of that interface, of both families, the best of each family first. Addresses of
// Services are left out. Gateway is the router on the way, or zero if the neighbor is on the link. Lost says that the node has no route to the neighbor any more. The Egress is
// then the last known one.
type Egress struct {
	Interface string
	Addresses []netip.Addr
	Gateway   netip.Addr
	Lost      bool
}

// Decision is the meaning of a BGPConfiguration for a node.
type Decision struct {
	// State may be applied if OK is true. Otherwise there is none.
	State State
	OK    bool
	// RouterIDSource is explicit, template, node-ipv4 or hash-from-node-name.
	RouterIDSource string
	// Import selects the addresses that become routes.
	Import ImportRules
	// Export says which learned routes go into the kernel. The routes have the protocol number
	// Protocol. The speaker collects changes for Dampening before it writes them.
	Export    []ExportRule
	Dampening time.Duration
	Protocol  int

	StatusEnabled bool
	Heartbeat     time.Duration
	// Configured is the number of neighbors that the configuration lists, for any node.
	// LeftOut are the neighbors that this node should have and does not have.
	Configured int
	LeftOut    []LeftOut
	// Unnamed are the restrictions that name no neighbor of this node, sorted.
	Unnamed []string
	// Problems are in the order in which they were found, which is deterministic.
	Problems []Problem
}

// LeftOut is a neighbor of this node that is not in the State because of a Problem.
type LeftOut struct {
	Name, Description string
	ASN               uint32
	Path, Message     string
}

// ImportRules say which addresses become routes: those on interfaces whose name matches one
// of Patterns (as in path.Match). Enabled without Patterns means the dummy interface for
// remote addresses, whatever its name.
type ImportRules struct {
	Enabled  bool
	Patterns []string
}

// ExportRule selects the learned routes that the speaker writes to a routing table of the kernel:
// those with one of the communities, of either kind. Without communities it selects all.
type ExportRule struct {
	Name             string
	Communities      []uint32
	LargeCommunities []string
	// Table is the number of the table. 0 is the main table.
	Table           uint32
	Metric          uint32
	ValidateNextHop bool
	// AllowDefault also selects default routes.
	AllowDefault bool
	// Path is the rule's field in the BGPConfiguration.
	Path string
}

// Decide reads the configuration of a node. The result depends only on the arguments. egress returns
// false if there is no route to the neighbor. Its argument may have a zone: the interface
// to use.
//
// A part that is wrong becomes a Problem and is left out, and the rest is in the State. If the
// password of a neighbor is wrong, Decide leaves out the whole neighbor: it does not open a session
// without this protection.
func Decide(spec bgpv1.BGPConfigurationSpec, node Node, secrets Secrets, egress func(netip.Addr) (Egress, bool)) Decision {
	r := reader{spec: spec, node: node, secrets: secrets, egress: egress}
	r.legacy()
	r.global()
	r.status()
	r.imports()
	r.exports()
	r.peerGroups()
	r.neighbors()
	r.listensIfNeeded()
	r.policies()
	return r.decision()
}

// reader is the state of reading a BGPConfiguration.
type reader struct {
	spec    bgpv1.BGPConfigurationSpec
	node    Node
	secrets Secrets
	egress  func(netip.Addr) (Egress, bool)

	findings
	d      Decision
	groups map[string]group
	// template says that the reader reads a group instead of a neighbor.
	template bool
	// members holds the neighbors of this node with the facts that policies need.
	members []member
}

// decision returns the result of reading.
func (r *reader) decision() Decision {
	d := r.d
	d.Problems = r.problems
	d.OK = !slices.ContainsFunc(d.Problems, func(p Problem) bool { return p.Fatal })
	if !d.OK {
		d.State = State{}
	}
	return d
}
