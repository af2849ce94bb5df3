package v2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ServiceGroup is a set of addresses for Services of type LoadBalancer, with
// the way in which they are announced. A Service names the group it wants with
// the annotation "purelb.io/service-group"; one that names none gets its
// address from the group called "default".
//
// Only ServiceGroups in the namespace that PureLB is installed in are used, and
// those in the namespaces that its operator names (configNamespaces). The
// condition Accepted says whether this one is, and if not, why and what to do.
// Changing or deleting a group never takes an address away from a Service.
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

	// spec is what the group should be.
	// +required
	Spec ServiceGroupSpec `json:"spec"`

	// status is what PureLB makes of it. Written by the allocator only.
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
	// local is for addresses of a network that nodes are connected to. Each
	// address is on the interface of one node of its subnet at a time; when
	// that node fails, another one takes over.
	// +optional
	Local *LocalSpec `json:"local,omitempty"`

	// remote is for addresses of a network of their own, which routers learn
	// by a routing protocol. Each address is on the dummy interface
	// (kube-lb0) of every node.
	// +optional
	Remote *RemoteSpec `json:"remote,omitempty"`

	// netbox is for addresses that a NetBox server manages.
	// +optional
	Netbox *NetboxSpec `json:"netbox,omitempty"`

	// external is for addresses that another program manages: an IPAM server,
	// which the allocator asks by gRPC.
	// +optional
	External *ExternalSpec `json:"external,omitempty"`

	// bgp is what the routes to addresses of this group say of themselves to
	// routers. Addresses that are local to a node have no route, and none of
	// this. With netbox and external it is not in effect: annotate the Services.
	// Default: nothing beyond where they lead.
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

	// announce says what becomes of an address that is in no node's subnet.
	// "local": it is announced nowhere. "auto": it is announced like a remote
	// one, on the dummy interface of every node. Default: "local" in
	// purelb.io/v2, "auto" in purelb.io/v1, where there was no other way to
	// write a remote group.
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

// Withdrawal says when addresses of a group are announced by no node.
type Withdrawal struct {
	// withdrawWithoutEndpoints takes an address off all nodes while no Service that
	// has it has a ready endpoint of its family on any node, so that routers send
	// traffic to another cluster that announces it too (anycast). It goes 5 s after
	// the last endpoint, and returns with the first, or later if it goes and returns
	// often. An endpoint that ends and serves still counts if none is ready. Default:
	// false: the address stays, and connections are refused.
	// +optional
	WithdrawWithoutEndpoints bool `json:"withdrawWithoutEndpoints,omitempty"`
}

// Announce says where the addresses of a local group are announced.
//
// +kubebuilder:validation:Enum=local;auto
type Announce string

const (
	// AnnounceLocal is on one node of the address's subnet, or nowhere.
	AnnounceLocal Announce = "local"
	// AnnounceAuto is local where a node has the subnet, otherwise remote.
	AnnounceAuto Announce = "auto"
)
