package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Neighbor is a router that nodes peer with.
type Neighbor struct {
	// config says who the neighbor is.
	// +required
	Config NeighborConfig `json:"config"`

	// nodeSelector selects the nodes that peer with the neighbor, by their
	// labels. It follows changes of labels at once. Default: all nodes. If it is
	// malformed, the neighbor is left out.
	// +optional
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`

	SessionOptions `json:",inline"`
}

// PeerGroup has common settings of several neighbors. A field of the neighbor
// takes precedence over the same field of its group. For afiSafis, and for the
// policies of one direction, the neighbor's whole list takes precedence.
type PeerGroup struct {
	// config has the name of the group and the common settings of its neighbors.
	// +required
	Config PeerGroupConfig `json:"config"`

	// nodeSelector selects the nodes on which the group's neighbors are in use.
	// Default: all nodes. If it is malformed, the group and its neighbors are
	// left out.
	// +optional
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`

	SessionOptions `json:",inline"`
}

// NeighborConfig says who a neighbor is: exactly one of neighborAddress,
// neighborInterface and neighborGateway.
//
// +kubebuilder:validation:XValidation:rule=`has(self.neighborGateway) != ((has(self.neighborAddress) && self.neighborAddress != "") || (has(self.neighborInterface) && self.neighborInterface != ""))`,message="write exactly one of neighborAddress, neighborInterface and neighborGateway"
// +kubebuilder:validation:XValidation:rule=`!((has(self.neighborAddress) && self.neighborAddress != "") && (has(self.neighborInterface) && self.neighborInterface != ""))`,message="write exactly one of neighborAddress, neighborInterface and neighborGateway"
type NeighborConfig struct {
	// neighborAddress is the neighbor's IP address. A link-local address has its
	// interface behind it, such as "fe80::1%eth1". Two neighbors of a node must
	// not have the same address; the second is left out. An address of the node
	// itself is skipped, so that the nodes of a full mesh can share one list.
	// +optional
	NeighborAddress string `json:"neighborAddress,omitempty"`

	// neighborInterface is an interface with one router behind it. The node peers
	// with this router by its link-local address (an unnumbered session). The
	// node sends Router Advertisements on the interface, because routers wait for
	// them.
	// +optional
	NeighborInterface string `json:"neighborInterface,omitempty"`

	// neighborGateway makes the default gateway of the node the neighbor: the next
	// hop of the default route of this family in the main routing table. If that
	// route changes, the neighbor changes. If the node loses the route, the last
	// known gateway stays the neighbor. A node that has had no such route since its
	// speaker started does not have the neighbor. Of several next hops, the one
	// with the lowest metric wins, then with the highest preference (RFC 4191), then
	// with the lowest address. Routes with the protocol number of netlinkExport do
	// not count.
	// +kubebuilder:validation:Enum=ipv4;ipv6
	// +optional
	NeighborGateway string `json:"neighborGateway,omitempty"`

	// peerGroup is the name of the peer group with the settings that this
	// neighbor lacks. If there is no such group, the neighbor is left out.
	// +optional
	PeerGroup string `json:"peerGroup,omitempty"`

	// adminDown keeps the session closed. Default: false.
	// +optional
	AdminDown bool `json:"adminDown,omitempty"`

	// vrf is the name of the VRF that the neighbor is in. Not supported: a
	// neighbor with a VRF is left out, and the status says so. Default: none.
	// +optional
	VRF string `json:"vrf,omitempty"`

	PeerConfig `json:",inline"`
}

// PeerGroupConfig has the name of a group and the common settings of its
// neighbors.
type PeerGroupConfig struct {
	// peerGroupName is the name by which neighbors refer to the group. It must be
	// unique; a second group of this name is not in effect.
	// +required
	PeerGroupName string `json:"peerGroupName"`

	PeerConfig `json:",inline"`
}

// PeerConfig has the two ends of a session, and how they authenticate.
type PeerConfig struct {
	// peerAsn is the number of the neighbor's autonomous system. The word
	// external means any autonomous system but the node's own, and internal means
	// the node's own. It must be set here or in the peer group; otherwise the
	// neighbor is left out. A neighbor in the node's own autonomous system
	// although the word is external has no session: the node tries again after
	// five minutes.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^(external|internal)$`
	// +optional
	PeerASN PeerASN `json:"peerAsn,omitempty"`

	// localAsn is the number of the node's autonomous system in sessions with
	// this neighbor. "${node.annotations['key']}" is the number in an annotation of
	// the node, and "${node.labels['key']}" that in a label. A node on which there
	// is no such number does not have the neighbor. Default: global.asn.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^\$\{node\.(annotations|labels)\['[A-Za-z0-9._/-]{1,317}'\]\}$`
	// +optional
	LocalASN LocalASN `json:"localAsn,omitempty"`

	// description is for people. BGPNodeStatus shows it.
	// +optional
	Description string `json:"description,omitempty"`

	// authPassword is the key of TCP-MD5 (RFC 2385), 1 to 80 bytes. Anyone with
	// the right to read this object can read it, so use authPasswordSecretRef,
	// which takes precedence. Default: none, the session is not authenticated.
	// +optional
	AuthPassword string `json:"authPassword,omitempty"`

	// authPasswordSecretRef names the key of a Secret, in the namespace of PureLB,
	// whose value is the key of TCP-MD5, 1 to 80 bytes. A new value ends the
	// session, up to 30 seconds later. If the Secret cannot be read any more, the
	// last value stays in use. If it was never read, the neighbor is left out:
	// there is no session without it.
	// +optional
	AuthPasswordSecretRef *SecretKeyRef `json:"authPasswordSecretRef,omitempty"`
}

// SecretKeyRef names one key of a Secret.
type SecretKeyRef struct {
	// name is the name of the Secret.
	// +optional
	Name string `json:"name,omitempty"`

	// key is the key in the Secret's data.
	// +required
	Key string `json:"key"`

	// optional allows a session without authentication if the Secret or its key
	// is missing. Default: false.
	// +optional
	Optional bool `json:"optional,omitempty"`
}

// DynamicNeighbor is a network of neighbors that the configuration does not
// name. It has no effect.
type DynamicNeighbor struct {
	// prefix is the network, such as "192.0.2.0/24".
	// +required
	Prefix string `json:"prefix"`

	// peerGroup is the name of the group of these neighbors.
	// +required
	PeerGroup string `json:"peerGroup"`
}
