package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BGPConfiguration says which routers nodes peer with, what they announce and
// what they learn. One is enough, called "default", in the namespace that PureLB
// is installed in. Nodes can differ by the nodeSelector of neighbors and peer
// groups, and by further BGPConfigurations with a nodeSelector.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=configs,singular=config,scope=Namespaced,shortName=bgpconfig;bgpconfigs;bgpconfiguration;bgpconfigurations
// +kubebuilder:printcolumn:name=Ready,type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name=Reason,type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name=Neighbors,type=integer,JSONPath=`.status.neighborCount`
// +kubebuilder:printcolumn:name=ASN,type=integer,JSONPath=`.spec.global.asn`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type BGPConfiguration struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says how nodes speak BGP.
	// +optional
	Spec BGPConfigurationSpec `json:"spec,omitzero"`

	// status is what holds for the configuration on every node. The state of one
	// node is in its BGPNodeStatus.
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

// BGPConfigurationSpec says how nodes speak BGP.
type BGPConfigurationSpec struct {
	// nodeSelector selects the nodes for which the object is, by their labels. On
	// each node one BGPConfiguration counts: the oldest one whose nodeSelector
	// selects the node. If there is none, it is one without a nodeSelector: the one
	// called "default", or the oldest. The status of the others names it. {} selects
	// all nodes.
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn'] ? has(e.values) && size(e.values) > 0 : e.operator in ['Exists', 'DoesNotExist'] && (!has(e.values) || size(e.values) == 0))",message="matchExpressions must have the operator In or NotIn with values, or Exists or DoesNotExist without values"
	// +optional
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`

	// global has the settings of a node as a whole. While something essential in
	// it is wrong, such as asn, nothing of the configuration takes effect.
	// +required
	Global Global `json:"global"`

	// neighbors are the routers that nodes peer with. A neighbor with a mistake
	// is left out; the others are in effect. Default: none.
	// +listType=atomic
	// +optional
	Neighbors []Neighbor `json:"neighbors,omitempty"`

	// peerGroups are common settings of several neighbors. Default: none.
	// +listType=atomic
	// +optional
	PeerGroups []PeerGroup `json:"peerGroups,omitempty"`

	// dynamicNeighbors are networks from which nodes would accept neighbors that
	// the configuration does not name. Not supported: they have no effect, and the
	// status says so. Default: none.
	// +listType=atomic
	// +optional
	DynamicNeighbors []DynamicNeighbor `json:"dynamicNeighbors,omitempty"`

	// vrfs are separate routing tables (RFC 4364). Not supported: they have no
	// effect, and the status says so. Default: none.
	// +listType=atomic
	// +optional
	VRFs []VRF `json:"vrfs,omitempty"`

	// definedSets are sets of policies. Not supported: they have no effect, and the
	// status says so. Default: none.
	// +listType=atomic
	// +optional
	DefinedSets []Unread `json:"definedSets,omitempty"`

	// policyDefinitions are policies. Not supported: they have no effect, and the
	// status says so. Use spec.bgp of ServiceGroups. Default: none.
	// +listType=atomic
	// +optional
	PolicyDefinitions []Unread `json:"policyDefinitions,omitempty"`

	// communityAliases are names for communities. Not supported: they have no
	// effect, and the status says so. Write the numbers. Default: none.
	// +kubebuilder:validation:MaxProperties=256
	// +kubebuilder:validation:XValidation:rule="self.all(name, name.size() <= 63 && name.matches('^[a-z][-a-z0-9]*$'))",message="communityAliases must have names of lower-case letters, digits and '-' that begin with a letter, with at most 63 characters"
	// +optional
	CommunityAliases map[string]AliasedCommunity `json:"communityAliases,omitempty"`

	// netlinkImport says which addresses of the node are announced. Default:
	// those of the dummy interface that carries remote addresses (kube-lb0, or
	// the one in the LBNodeAgent of the node).
	// +optional
	NetlinkImport *NetlinkImport `json:"netlinkImport,omitempty"`

	// netlinkExport says which learned routes go into the routing tables of the
	// node. Default: none.
	// +optional
	NetlinkExport *NetlinkExport `json:"netlinkExport,omitempty"`
}

// AliasedCommunity is a community, two numbers of 16 bits, or a large community,
// three numbers of 32 bits.
//
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{1,5}:[0-9]{1,5}$') && self.split(':').all(number, int(number) <= 65535) || self.matches('^[0-9]{1,10}:[0-9]{1,10}:[0-9]{1,10}$') && self.split(':').all(number, int(number) <= 4294967295)",message="communityAliases must hold two numbers of 0 to 65535 each, such as 65000:100, or three numbers of 0 to 4294967295 each, such as 64512:100:1"
type AliasedCommunity string
