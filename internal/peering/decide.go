package peering

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
)

// Node is what is known of this node.
type Node struct {
	Name                     string
	Labels, Annotations      map[string]string
	InternalIPs, ExternalIPs []netip.Addr
	// Own are the prefixes that only nodes of this cluster may announce: those of its
	// pools.
	Own []PrefixRange
	// Draining says that others are asked to prefer other nodes. No policy takes that
	// back.
	Draining bool
}

// Secrets answers for a reference; the error says what is wrong with it, such as
// `secret purelb-system/x has no key "password"`.
type Secrets func(name, key string) (string, error)

// Egress is how this node reaches a neighbour: by Interface, on which it has
// Addresses: global ones of both families, the best of each first, and none of
// Services.
type Egress struct {
	Interface string
	Addresses []netip.Addr
}

// SecretRef names one key of a Secret.
type SecretRef struct{ Name, Key string }

// Decision is what a BGPConfiguration means for a node.
type Decision struct {
	// State may be applied when it is OK; otherwise there is none.
	State State
	OK    bool
	// RouterIDSource is explicit, template, node-ipv4 or hash-from-node-name.
	RouterIDSource string
	// Import is which addresses become routes, and VRFImports the same for VRFs.
	Import     ImportRules
	VRFImports []ImportRules
	// Export is which learned routes go into the kernel, after changes have been
	// collected for Dampening, marked with Protocol. Those of VRFs are among
	// them.
	Export    []ExportRule
	Dampening time.Duration
	Protocol  int

	AllowTransit  bool
	StatusEnabled bool
	Heartbeat     time.Duration
	// Secrets are those that the configuration names, on whatever node.
	Secrets []SecretRef
	// Configured is how many neighbours the configuration lists, on whatever
	// node, and LeftOut those that this node should have and does not.
	Configured int
	LeftOut    []LeftOut
	// Problems are in the order in which they were found, which is always the
	// same.
	Problems []Problem
}

// LeftOut is a neighbour of this node that is not in the State, because of a
// Problem; or it is there held down, with the same Path, so that it does not come
// by itself.
type LeftOut struct {
	Name, Description string
	ASN               uint32
	Path, Message     string

	address netip.Addr // zero when it is not known
}

// ImportRules say which addresses become routes: those on interfaces whose name
// matches one of Patterns (as of path.Match). Enabled without Patterns is the
// dummy interface that carries remote addresses, whatever its name.
type ImportRules struct {
	Enabled  bool
	Patterns []string
	VRF      string
}

// ExportRule says which learned routes go into a routing table of the kernel:
// those of VRF that have one of the communities, of either kind; all when there
// are none.
type ExportRule struct {
	Name             string
	Communities      []uint32
	LargeCommunities []string
	// VRF is the VRF of the State that the routes are from; "" for none.
	VRF string
	// Device is the VRF device of the kernel whose table the routes go into.
	// When it is "", they go into Table, of which 0 is the main one.
	Device          string
	Table           uint32
	Metric          uint32
	ValidateNextHop bool
	// AllowDefault lets also default routes in.
	AllowDefault bool
	// Path is the field of the BGPConfiguration that it comes from.
	Path string
}

// Decide reads a BGPConfiguration for one node. It depends on nothing but its
// arguments; egress answers false when there is no route to the neighbour. What
// it is asked for may have a zone, which is the interface to be gone by.
//
// What is wrong is a Problem and is left out, and the rest is in the State. What
// is left out of it is never less than what protects: a neighbour without its
// policy or its password is no neighbour.
func Decide(spec bgpv1.BGPConfigurationSpec, node Node, secrets Secrets, egress func(netip.Addr) (Egress, bool)) Decision {
	r := reader{spec: spec, node: node, secrets: secrets, egress: egress}
	r.d.AllowTransit = spec.Global.AllowTransit
	r.global()
	r.status()
	r.vrfs()
	r.imports()
	r.exports()
	r.definedSets()
	r.definedPolicies()
	r.peerGroups()
	r.neighbors()
	r.dynamicNeighbors()
	r.bar()
	r.chains()
	return r.decision()
}

// reader is a BGPConfiguration that is being read.
type reader struct {
	spec    bgpv1.BGPConfigurationSpec
	node    Node
	secrets Secrets
	egress  func(netip.Addr) (Egress, bool)

	findings
	d Decision
	// sets and policies are by their names, of sets with the kind; one that is
	// there and not ok has a mistake.
	sets     map[setKey]usableSet
	policies map[string]policy
	groups   map[string]group
	// template says that a group is being read, and not a neighbour.
	template bool
	// members are the neighbours of this node with what chains need to know.
	members []member
}

// decision is what has been read.
func (r *reader) decision() Decision {
	d := r.d
	d.Problems = r.problems
	d.Secrets = sortedRefs(d.Secrets)
	d.OK = !slices.ContainsFunc(d.Problems, func(p Problem) bool { return p.Fatal })
	if !d.OK {
		d.State = State{}
	}
	return d
}

func sortedRefs(refs []SecretRef) []SecretRef {
	slices.SortFunc(refs, func(a, b SecretRef) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Key, b.Key))
	})
	return slices.Compact(refs)
}
