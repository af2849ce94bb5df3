package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BGPConfiguration says with whom nodes speak BGP, what they announce and what
// they learn. There is one, called "default", in the namespace that PureLB is
// installed in; nodes differ by the nodeSelector of neighbors and peer groups.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=configs,singular=config,scope=Namespaced,shortName=bgpconfig
type BGPConfiguration struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is how nodes should speak BGP.
	// +optional
	Spec BGPConfigurationSpec `json:"spec,omitzero"`

	// status is what is true of the configuration on every node. What became
	// of it on one node is in its BGPNodeStatus.
	// +optional
	Status BGPConfigurationStatus `json:"status,omitzero"`
}

// BGPConfigurationList is a list of BGPConfigurations.
//
// +kubebuilder:object:root=true
type BGPConfigurationList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []BGPConfiguration `json:"items"`
}

// BGPConfigurationSpec is how nodes should speak BGP.
type BGPConfigurationSpec struct {
	// global is what concerns a node as a whole. While something essential is
	// wrong with it, such as asn, nothing of the configuration takes effect.
	// +required
	Global Global `json:"global"`

	// neighbors are the routers that nodes peer with. One with a mistake is
	// left out, and the others are in effect. Default: none.
	// +listType=atomic
	// +optional
	Neighbors []Neighbor `json:"neighbors,omitempty"`

	// peerGroups are what several neighbors have in common, and the templates
	// of dynamicNeighbors. Default: none.
	// +listType=atomic
	// +optional
	PeerGroups []PeerGroup `json:"peerGroups,omitempty"`

	// dynamicNeighbors are networks from which neighbors are accepted without
	// being named. Default: none.
	// +listType=atomic
	// +optional
	DynamicNeighbors []DynamicNeighbor `json:"dynamicNeighbors,omitempty"`

	// vrfs are routing tables of their own (RFC 4364). Default: none.
	// +listType=atomic
	// +optional
	VRFs []VRF `json:"vrfs,omitempty"`

	// definedSets are what the conditions of policies refer to by name.
	// Default: none.
	// +listType=atomic
	// +optional
	DefinedSets []DefinedSet `json:"definedSets,omitempty"`

	// policyDefinitions are the policies that applyPolicy refers to by name.
	// Default: none.
	// +listType=atomic
	// +optional
	PolicyDefinitions []PolicyDefinition `json:"policyDefinitions,omitempty"`

	// netlinkImport says which addresses of the node are announced. Default:
	// those of the dummy interface that carries remote addresses (kube-lb0, or
	// what the LBNodeAgent of the node says).
	// +optional
	NetlinkImport *NetlinkImport `json:"netlinkImport,omitempty"`

	// netlinkExport says which routes that were learned go into the routing
	// tables of the node. Default: none.
	// +optional
	NetlinkExport *NetlinkExport `json:"netlinkExport,omitempty"`
}
