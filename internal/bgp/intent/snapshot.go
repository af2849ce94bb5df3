// Package intent translates the objects of the cluster into the input of the BGP speaker of
// one node. Snapshot holds the parts of the objects that the speaker uses, and Read makes
// an Input of them. An Input depends on the Snapshot, on the Input before it, and on the
// configuration in effect. Package peering decides what to do about it.
//
// Read in this order: snapshot.go, config.go, input.go, attributes.go, strays.go, endpoints.go.
package intent

import (
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/groups"
	"purelb.io/purelb/internal/nodes/ending"
)

// Snapshot holds the parts of the cluster's objects that the speaker uses. It is shared and
// read-only.
type Snapshot struct {
	// Configs are the BGPConfigurations of the install namespace.
	Configs []bgpv1.BGPConfiguration
	// Node is this node, or nil if it has no object.
	Node   *NodeFacts
	Groups []v2.ServiceGroup
	Agents []v2.LBNodeAgent
	// Services are the Services with route attributes, those with addresses from IPAM systems, and the
	// Restricted ones.
	Services []ServiceFacts
	// Managed are the Services with addresses, if a group names neighbors or nodes or weighs its routes, or did
	// so earlier. Otherwise it is nil.
	Managed []ServiceFacts
	// Endpoints are the EndpointSlices with endpoints on this node, if a group weighs its routes. It is nil as
	// long as these are not known.
	Endpoints []SliceFacts
	// Secrets are the Secrets that the configuration in effect names. A Secret that is
	// missing here does not exist. A Secret without Data cannot be read.
	Secrets map[string]peering.Secret
}

// NodeLabels returns the labels of this node, or before if it has no object.
func (s Snapshot) NodeLabels(before map[string]string) map[string]string {
	if s.Node == nil {
		return before
	}
	return s.Node.Labels
}

// group returns the object of a group, or nil.
func (s Snapshot) group(g groups.Group) *v2.ServiceGroup {
	i := slices.IndexFunc(s.Groups, func(o v2.ServiceGroup) bool { return o.Namespace == g.Namespace && o.Name == g.Name })
	if i < 0 {
		return nil
	}
	return &s.Groups[i]
}

// NodeFacts holds the parts of this node's object that the speaker uses.
type NodeFacts struct {
	peering.Node
	UID types.UID
	ending.DrainMark
}

// ServiceFacts holds the parts of a Service that the speaker uses.
type ServiceFacts struct {
	Name        string // namespace/name
	UID         types.UID
	Annotations map[string]string
	Addresses   []netip.Addr
	// Recorded says that an IPAM system manages the addresses.
	Recorded bool
	// From names the groups that the addresses are from, and Restricted says that one of them names
	// neighbors or nodes. Services with route attributes alone may lack both.
	From       string
	Restricted bool
	// Local says that only nodes with an endpoint announce the addresses (externalTrafficPolicy: Local).
	Local bool
}

// SliceFacts holds the endpoints of a Service on this node, by their addresses.
type SliceFacts struct {
	Service        string // namespace/name
	Family         addr.Family
	Ready, Unready []string
}
