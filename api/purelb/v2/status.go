package v2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Types of conditions.
const (
	// ConditionAccepted says whether the object is in use. Its reason is
	// Accepted, or what is wrong. Its message says how to correct it.
	ConditionAccepted = "Accepted"
	// ConditionIPv4Exhausted and ConditionIPv6Exhausted of a ServiceGroup say
	// whether the family has no free address. They exist for the families of the
	// group.
	ConditionIPv4Exhausted = "IPv4Exhausted"
	ConditionIPv6Exhausted = "IPv6Exhausted"
	// ConditionBackendReady of a ServiceGroup with NetBox or an IPAM server says
	// whether that backend works. Its reason is Reached, NotReached, or what is
	// wrong: Misconfigured, Unavailable or Unknown. Its message says how to
	// correct it.
	ConditionBackendReady = "BackendReady"
	// ConditionTerminating of a ServiceGroup that is being deleted says which
	// Services keep it, because they have addresses of it.
	ConditionTerminating = "Terminating"
	// ConditionAnnouncing of an LBNodeAgent says whether all nodes that it
	// selects can announce addresses. Its message lists the nodes that cannot.
	ConditionAnnouncing = "Announcing"
)

// ServiceGroupStatus is what PureLB reports about a ServiceGroup.
type ServiceGroupStatus struct {
	// conditions have the type Accepted. It is True if PureLB allocates addresses
	// from this group; otherwise its reason is one of ParseError, Overlaps,
	// ClusterNetwork, Duplicate and OutOfScope. In both cases Services keep the
	// addresses that they have. IPv4Exhausted and IPv6Exhausted exist for the
	// families of the group, and are True if the family has no free address.
	// BackendReady, for a group with NetBox or an IPAM server, is False if that
	// does not work. Terminating, for a group that is being deleted, names the
	// Services that have addresses of it and keep it.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// announce says where the addresses are announced: "Local", "Remote", or
	// "Auto" if the nodes' subnets decide for each address.
	// +optional
	Announce string `json:"announce,omitempty"`

	// ipam names the system that hands out the addresses: "Cluster" is PureLB
	// itself.
	// +optional
	IPAM string `json:"ipam,omitempty"`

	// backend is what PureLB knows of NetBox or of the IPAM server, if one of
	// them manages the addresses of the group.
	// +optional
	Backend *BackendStatus `json:"backend,omitempty"`

	// addresses are the ranges of the group as written in spec, IPv4 before IPv6.
	// For a group with a backend, they are the ranges that the backend reports.
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
	// means that many or more. Absent when unknown.
	// +kubebuilder:validation:Minimum=0
	// +optional
	AvailableIPv6 *int64 `json:"availableIPv6,omitempty"`

	// boundNamespaces are the namespaces that the group is for.
	// +listType=atomic
	// +optional
	BoundNamespaces []string `json:"boundNamespaces,omitempty"`
}

// BackendStatus is what PureLB knows of the system that manages the addresses of
// a group.
type BackendStatus struct {
	// name is the name of the system, with its version if that is known.
	// +optional
	Name string `json:"name,omitempty"`

	// lastReached is when the system last answered, as of the last write of this
	// status.
	// +optional
	LastReached *metav1.Time `json:"lastReached,omitempty"`

	// sizeIPv4 is how many IPv4 addresses the system has for the group. Absent
	// when unknown.
	// +kubebuilder:validation:Minimum=0
	// +optional
	SizeIPv4 *int64 `json:"sizeIPv4,omitempty"`

	// sizeIPv6 is how many IPv6 addresses the system has for the group;
	// 9223372036854775807 means that many or more. Absent when unknown.
	// +kubebuilder:validation:Minimum=0
	// +optional
	SizeIPv6 *int64 `json:"sizeIPv6,omitempty"`

	// orphans is how many addresses the system holds for this cluster although no
	// Service has them. PureLB does not release them, because another cluster may
	// use them: see the command "kubectl purelb ipam release-orphans".
	// +optional
	Orphans int32 `json:"orphans,omitempty"`

	// unregistered is how many addresses Services have although the system does
	// not hold them for these Services. PureLB registers them.
	// +optional
	Unregistered int32 `json:"unregistered,omitempty"`

	// warnings say what works but is not safe, and how to correct it.
	// +listType=atomic
	// +optional
	Warnings []string `json:"warnings,omitempty"`
}

// LBNodeAgentStatus is what PureLB reports about an LBNodeAgent.
type LBNodeAgentStatus struct {
	// conditions have the types Accepted and Announcing. If Accepted is False,
	// the object is not used; the message says why. If Announcing is False, the
	// message says which nodes cannot announce, and why.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
