package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Neighbor is a router that nodes peer with.
type Neighbor struct {
	// config says who the neighbor is.
	// +required
	Config NeighborConfig `json:"config"`

	// nodeSelector selects the nodes that peer with the neighbor by their
	// labels. It follows changes of labels at once. Default: all nodes. With a
	// malformed one the neighbor is left out.
	// +optional
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`

	SessionOptions `json:",inline"`
}

// PeerGroup is what several neighbors have in common. What a neighbor says
// itself is used before what its group says, field by field; of afiSafis and of
// the policies of one direction all or nothing.
type PeerGroup struct {
	// config says what the group is called, and what its neighbors have in
	// common.
	// +required
	Config PeerGroupConfig `json:"config"`

	// nodeSelector selects the nodes on which the group's neighbors are in use.
	// Default: all nodes. With a malformed one the group is left out, and its
	// neighbors with it.
	// +optional
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`

	SessionOptions `json:",inline"`
}

// NeighborConfig says who a neighbor is: exactly one of neighborAddress and
// neighborInterface.
type NeighborConfig struct {
	// neighborAddress is the neighbor's IP address. A link-local one has the
	// interface behind it, such as "fe80::1%eth1". Two neighbors of a node must
	// not have the same; the second is left out. An address of the node itself
	// is passed over, so that the nodes of a full mesh can share one list.
	// +optional
	NeighborAddress string `json:"neighborAddress,omitempty"`

	// neighborInterface is the interface behind which the one router is that
	// the node peers with, by its link-local address (an unnumbered session).
	// The node sends Router Advertisements there, because routers wait for
	// them.
	// +optional
	NeighborInterface string `json:"neighborInterface,omitempty"`

	// peerGroup is the name of the peer group that gives what is not said here.
	// Where there is none of that name, the neighbor is left out.
	// +optional
	PeerGroup string `json:"peerGroup,omitempty"`

	// adminDown keeps the session closed. Default: false.
	// +optional
	AdminDown bool `json:"adminDown,omitempty"`

	// vrf is the name of one of vrfs that the neighbor is in. Default: none.
	// +optional
	VRF string `json:"vrf,omitempty"`

	PeerConfig `json:",inline"`
}

// PeerGroupConfig says what a group is called, and what its neighbors have in
// common.
type PeerGroupConfig struct {
	// peerGroupName is what neighbors and dynamicNeighbors call the group. It
	// must be the only one of its name; a second one is not in effect.
	// +required
	PeerGroupName string `json:"peerGroupName"`

	PeerConfig `json:",inline"`
}

// PeerConfig is who is at both ends of a session, and how they know each other.
type PeerConfig struct {
	// peerAsn is the number of the neighbor's autonomous system. It must be
	// here or in the peer group; without one the neighbor is left out.
	// +optional
	PeerASN int64 `json:"peerAsn,omitempty"`

	// localAsn is the number of the autonomous system that the node belongs to
	// in the eyes of the neighbor. Default: global.asn.
	// +optional
	LocalASN int64 `json:"localAsn,omitempty"`

	// description is for people, and shown in BGPNodeStatus.
	// +optional
	Description string `json:"description,omitempty"`

	// authPassword is the key of TCP-MD5 (RFC 2385), 1 to 80 bytes. Everybody
	// who may read this object can read it: use authPasswordSecretRef, which
	// is used when both are given. Default: none, the session is not
	// authenticated.
	// +optional
	AuthPassword string `json:"authPassword,omitempty"`

	// authPasswordSecretRef names the key of a Secret, in the namespace of this
	// object, whose value is the key of TCP-MD5, 1 to 80 bytes. A new value is
	// used at once, and ends the session. Where it cannot be read the neighbor
	// is left out: there is no session without it.
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

	// optional accepts that the Secret or its key is not there, and has a
	// session without authentication then. Default: false.
	// +optional
	Optional bool `json:"optional,omitempty"`
}

// DynamicNeighbor is a network from which neighbors are accepted without being
// named.
type DynamicNeighbor struct {
	// prefix is the network, such as "192.0.2.0/24". One of spec.neighbors that
	// is left out for a mistake is not accepted from it.
	// +required
	Prefix string `json:"prefix"`

	// peerGroup is the name of the group that the neighbors belong to, which
	// must give their peerAsn.
	// +required
	PeerGroup string `json:"peerGroup"`
}
