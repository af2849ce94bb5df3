// Package v1 has the custom resources of BGP. BGPConfiguration says which routers
// a node peers with, and under which policies. BGPNodeStatus reports the state of
// one node.
//
// The comment of a field is its manual. The schema refuses little, so that
// manifests for earlier generations of the API can still be applied. The
// conditions of a BGPConfiguration show what is wrong with it, with the path of
// the field; everything else is in effect. internal/bgp/peering decides what the
// values mean together, and sets the defaults.
//
// +kubebuilder:object:generate=true
// +groupName=bgp.purelb.io
package v1
