package v2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Types of conditions.
const (
	// ConditionAccepted says whether the object is in use. Its reason is
	// Accepted, or what is wrong; its message says how to mend it.
	ConditionAccepted = "Accepted"
	// ConditionIPv4Exhausted and ConditionIPv6Exhausted of a ServiceGroup that
	// has addresses of the family say whether none of them is free.
	ConditionIPv4Exhausted = "IPv4Exhausted"
	ConditionIPv6Exhausted = "IPv6Exhausted"
	// ConditionAnnouncing of an LBNodeAgent says whether all nodes that it
	// selects can announce addresses; its message lists those that cannot.
	ConditionAnnouncing = "Announcing"
)

// ServiceGroupStatus is what PureLB makes of a ServiceGroup.
type ServiceGroupStatus struct {
	// conditions hold the type Accepted: True when addresses are allocated from
	// this group; otherwise its reason is one of ParseError, Overlaps,
	// ClusterNetwork, Duplicate and OutOfScope. Services keep the addresses that
	// they have in either case. IPv4Exhausted and IPv6Exhausted, of the families
	// that the group has, are True when no address of the family is free.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// announce is where the addresses are announced: "Local", "Remote", or
	// "Auto" for what the nodes' subnets decide for each address.
	// +optional
	Announce string `json:"announce,omitempty"`

	// ipam is who hands out the addresses: "Cluster" for PureLB itself.
	// +optional
	IPAM string `json:"ipam,omitempty"`

	// addresses are the ranges of the group as they are written in spec, IPv4
	// before IPv6.
	// +listType=atomic
	// +optional
	Addresses []string `json:"addresses,omitempty"`

	// allocatedIPv4 is how many IPv4 addresses Services hold.
	// +kubebuilder:validation:Minimum=0
	// +optional
	AllocatedIPv4 int64 `json:"allocatedIPv4"`

	// allocatedIPv6 is how many IPv6 addresses Services hold.
	// +kubebuilder:validation:Minimum=0
	// +optional
	AllocatedIPv6 int64 `json:"allocatedIPv6"`

	// availableIPv4 is how many IPv4 addresses are free. Absent when unknown.
	// +kubebuilder:validation:Minimum=0
	// +optional
	AvailableIPv4 *int64 `json:"availableIPv4,omitempty"`

	// availableIPv6 is how many IPv6 addresses are free; 9223372036854775807
	// stands for that many or more. Absent when unknown.
	// +kubebuilder:validation:Minimum=0
	// +optional
	AvailableIPv6 *int64 `json:"availableIPv6,omitempty"`

	// boundNamespaces are the namespaces that the group is for.
	// +listType=atomic
	// +optional
	BoundNamespaces []string `json:"boundNamespaces,omitempty"`
}

// LBNodeAgentStatus is what PureLB makes of an LBNodeAgent.
type LBNodeAgentStatus struct {
	// conditions hold the types Accepted (False: the object is not used, and
	// why) and Announcing (False: which of its nodes cannot announce, and why).
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
