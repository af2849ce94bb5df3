package v2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ServiceGroup is a set of addresses for Services of type LoadBalancer. It also
// says how they are announced. A Service names its group with the annotation
// "purelb.io/service-group". A Service that names none gets its address from the
// group called "default".
//
// Only ServiceGroups in the namespace that PureLB is installed in count, and
// those in the namespaces that the operator names (configNamespaces). The
// condition Accepted says whether this group is in use. If not, it says why and
// what to do. Changing or deleting a group never takes an address away from a
// Service.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=servicegroups,singular=servicegroup,scope=Namespaced,shortName=sg;sgs
// +kubebuilder:printcolumn:name=Announce,type=string,JSONPath=`.status.announce`
// +kubebuilder:printcolumn:name=IPAM,type=string,JSONPath=`.status.ipam`
// +kubebuilder:printcolumn:name=Allocated-V4,type=integer,JSONPath=`.status.allocatedIPv4`
// +kubebuilder:printcolumn:name=Allocated-V6,type=integer,JSONPath=`.status.allocatedIPv6`
// +kubebuilder:printcolumn:name=Accepted,type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`
// +kubebuilder:printcolumn:name=Addresses,type=string,priority=1,JSONPath=`.status.addresses`
// +kubebuilder:printcolumn:name=Available-V4,type=integer,priority=1,JSONPath=`.status.availableIPv4`
// +kubebuilder:printcolumn:name=Available-V6,type=integer,priority=1,JSONPath=`.status.availableIPv6`
// +kubebuilder:printcolumn:name=Namespaces,type=string,priority=1,JSONPath=`.spec.namespaces`
// +kubebuilder:printcolumn:name=Enforced,type=boolean,priority=1,JSONPath=`.spec.enforceNamespaces`
// +kubebuilder:printcolumn:name=Bound,type=string,priority=1,JSONPath=`.status.boundNamespaces`
// +kubebuilder:printcolumn:name=Reason,type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Accepted")].reason`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type ServiceGroup struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec describes the group.
	// +required
	Spec ServiceGroupSpec `json:"spec"`

	// status is what PureLB reports about the group. Only the allocator writes
	// it.
	// +optional
	Status ServiceGroupStatus `json:"status,omitzero"`
}

// ServiceGroupList is a list of ServiceGroups.
//
// +kubebuilder:object:root=true
type ServiceGroupList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ServiceGroup `json:"items"`
}

// ServiceGroupSpec says where the addresses of a group come from: exactly one
// of local, remote, netbox and external, or the flat form with subnet and pool.
//
// +kubebuilder:validation:XValidation:rule="[has(self.local), has(self.remote), has(self.netbox), has(self.external), has(self.subnet) || has(self.pool)].filter(given, given).size() == 1",message="exactly one of local, remote, netbox or external must be specified (or the flat form: subnet and pool)"
type ServiceGroupSpec struct {
	// local is for addresses of a network that nodes are connected to. One node
	// of the subnet has each address on its interface. If that node fails,
	// another node takes over.
	// +optional
	Local *LocalSpec `json:"local,omitempty"`

	// remote is for addresses of a network of their own, which routers learn by a
	// routing protocol. Every node has each address on the dummy interface
	// (kube-lb0).
	// +optional
	Remote *RemoteSpec `json:"remote,omitempty"`

	// netbox is for addresses that a NetBox server manages.
	// +optional
	Netbox *NetboxSpec `json:"netbox,omitempty"`

	// external is for addresses that another program manages: an IPAM server,
	// which the allocator calls by gRPC.
	// +optional
	External *ExternalSpec `json:"external,omitempty"`

	// bgp are BGP attributes of the routes to addresses of this group. Addresses
	// that are local to a node have no route, so it has no effect on them. With
	// netbox and external it has no effect: annotate the Services instead.
	// Default: none.
	// +optional
	BGP *RouteAttributes `json:"bgp,omitempty"`

	Boundary `json:",inline"`
	FlatForm `json:",inline"`
}

// LocalSpec is a group of addresses of networks that nodes are connected to.
//
// +kubebuilder:validation:XValidation:rule="has(self.v4pool) || has(self.v6pool) || (has(self.v4pools) && size(self.v4pools) > 0) || (has(self.v6pools) && size(self.v6pools) > 0) || has(self.pool)",message="local needs addresses: at least one of v4pool, v6pool, v4pools and v6pools"
type LocalSpec struct {
	Pools  `json:",inline"`
	Single `json:",inline"`

	// announce says what happens to an address that is in no node's subnet.
	// "local": it is not announced. "auto": it is announced like a remote
	// address, on the dummy interface of every node. Default: "local" in
	// purelb.io/v2, "auto" in purelb.io/v1, which had no other way to write a
	// remote group.
	// +kubebuilder:default=local
	// +optional
	Announce Announce `json:"announce,omitempty"`

	LocalOptions `json:",inline"`
	Withdrawal   `json:",inline"`
}

// RemoteSpec is a group of addresses of networks that no node is connected to.
//
// +kubebuilder:validation:XValidation:rule="has(self.v4pool) || has(self.v6pool) || (has(self.v4pools) && size(self.v4pools) > 0) || (has(self.v6pools) && size(self.v6pools) > 0)",message="remote needs addresses: at least one of v4pool, v6pool, v4pools and v6pools"
type RemoteSpec struct {
	Pools      `json:",inline"`
	Withdrawal `json:",inline"`
}

// Withdrawal says when no node announces addresses of a group.
type Withdrawal struct {
	// withdrawWithoutEndpoints removes an address from all nodes when no Service
	// that has it has had a ready endpoint of its family for 5 s, so that routers
	// send traffic to another cluster with the address (anycast). If no endpoint
	// is ready, a terminating one that still serves counts. The first endpoint
	// brings the address back. Default: false: connections are refused.
	// +optional
	WithdrawWithoutEndpoints bool `json:"withdrawWithoutEndpoints,omitempty"`
}

// Announce says where the addresses of a local group are announced.
//
// +kubebuilder:validation:Enum=local;auto
type Announce string

const (
	// AnnounceLocal means on one node of the address's subnet, or nowhere.
	AnnounceLocal Announce = "local"
	// AnnounceAuto means local if a node has the subnet, otherwise remote.
	AnnounceAuto Announce = "auto"
)
