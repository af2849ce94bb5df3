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
	// ConditionBackendReady of a ServiceGroup of NetBox or an IPAM server says
	// whether that works. Its reason is Reached, NotReached, or what is wrong:
	// Misconfigured, Unavailable or Unknown. Its message says how to mend it.
	ConditionBackendReady = "BackendReady"
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
	// BackendReady, of a group of NetBox or an IPAM server, is False when that
	// does not work.
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

	// backend is what PureLB knows of the system that manages the addresses of a
	// group of NetBox or an IPAM server.
	// +optional
	Backend *BackendStatus `json:"backend,omitempty"`

	// addresses are the ranges of the group as they are written in spec, IPv4
	// before IPv6; of a group with a backend, what that says.
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

// BackendStatus is what PureLB knows of the system that manages the addresses of a
// group.
type BackendStatus struct {
	// name is that of the system, with its version if that is known.
	// +optional
	Name string `json:"name,omitempty"`

	// lastReached is when it last answered, as of the last write of this status.
	// +optional
	LastReached *metav1.Time `json:"lastReached,omitempty"`

	// sizeIPv4 is how many IPv4 addresses it has for the group. Absent when
	// unknown.
	// +kubebuilder:validation:Minimum=0
	// +optional
	SizeIPv4 *int64 `json:"sizeIPv4,omitempty"`

	// sizeIPv6 is how many IPv6 addresses it has for the group;
	// 9223372036854775807 stands for that many or more. Absent when unknown.
	// +kubebuilder:validation:Minimum=0
	// +optional
	SizeIPv6 *int64 `json:"sizeIPv6,omitempty"`

	// orphans is how many addresses it holds for this cluster that no Service has.
	// PureLB gives them back after a while.
	// +optional
	Orphans int32 `json:"orphans,omitempty"`

	// unregistered is how many addresses Services have that it does not hold for
	// them. PureLB registers them.
	// +optional
	Unregistered int32 `json:"unregistered,omitempty"`

	// warnings say what works, but not safely, and how to mend it.
	// +listType=atomic
	// +optional
	Warnings []string `json:"warnings,omitempty"`
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
