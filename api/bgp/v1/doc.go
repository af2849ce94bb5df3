// Package v1 is how nodes are told to speak BGP, and how they tell what came of
// it: BGPConfiguration, with whom a node peers and under which policies, and
// BGPNodeStatus, what became of it on one node.
//
// The comment of a field is its manual. The schema refuses little: what could be
// written for earlier generations of the API can still be applied. What is wrong
// with a BGPConfiguration is shown in its conditions, with the path of the field
// that it is about, and all that is well is in effect. What the values mean
// together, and the defaults, is the business of internal/peering.
//
// +kubebuilder:object:generate=true
// +groupName=bgp.purelb.io
package v1
