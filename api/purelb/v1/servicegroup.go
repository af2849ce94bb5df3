package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "purelb.io/purelb/api/purelb/v2"
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
	Status v2.ServiceGroupStatus `json:"status,omitzero"`
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
	Remote *v2.RemoteSpec `json:"remote,omitempty"`

	// netbox is for addresses that a NetBox server manages.
	// +optional
	Netbox *v2.NetboxSpec `json:"netbox,omitempty"`

	// external is for addresses that another program manages: an IPAM server,
	// which the allocator asks by gRPC.
	// +optional
	External *v2.ExternalSpec `json:"external,omitempty"`

	// bgp is what the routes to addresses of this group say of themselves to
	// routers. Addresses that are local to a node have no route, and none of
	// this. With netbox and external it is not in effect: annotate the Services.
	// Default: nothing beyond where they lead.
	// +optional
	BGP *v2.RouteAttributes `json:"bgp,omitempty"`

	v2.Boundary `json:",inline"`
	v2.FlatForm `json:",inline"`
}

// LocalSpec is a group of addresses of networks that nodes are connected to.
//
// +kubebuilder:validation:XValidation:rule="has(self.v4pool) || has(self.v6pool) || (has(self.v4pools) && size(self.v4pools) > 0) || (has(self.v6pools) && size(self.v6pools) > 0) || has(self.pool)",message="local needs addresses: at least one of v4pool, v6pool, v4pools and v6pools"
type LocalSpec struct {
	v2.Pools  `json:",inline"`
	v2.Single `json:",inline"`

	// announce says what becomes of an address that is in no node's subnet.
	// "local": it is announced nowhere. "auto": it is announced like a remote
	// one, on the dummy interface of every node. Default: "local" in
	// purelb.io/v2, "auto" in purelb.io/v1, where there was no other way to
	// write a remote group.
	// +kubebuilder:default=auto
	// +optional
	Announce v2.Announce `json:"announce,omitempty"`

	v2.LocalOptions `json:",inline"`
	v2.Withdrawal   `json:",inline"`
}
