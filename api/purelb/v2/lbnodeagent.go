package v2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LBNodeAgent says on which interfaces nodes announce addresses, and how.
//
// A node uses the first LBNodeAgent that selects it. LBNodeAgents with a
// nodeSelector come before those without one, and those without spec.local come
// last; then namespace and name decide. Only LBNodeAgents in the namespace that
// PureLB is installed in count and, after them, those in the namespaces that the
// operator names (configNamespaces).
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=lbnodeagents,singular=lbnodeagent,scope=Namespaced,shortName=lbna;lbnas
// +kubebuilder:printcolumn:name=Accepted,type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`
// +kubebuilder:printcolumn:name=Announcing,type=string,JSONPath=`.status.conditions[?(@.type=="Announcing")].status`
// +kubebuilder:printcolumn:name=Reason,type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Accepted")].reason`
// +kubebuilder:printcolumn:name=Message,type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Announcing")].message`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type LBNodeAgent struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the node agents should do.
	// +required
	Spec LBNodeAgentSpec `json:"spec"`

	// status is what PureLB reports about the object. Only the allocator writes
	// it.
	// +optional
	Status LBNodeAgentStatus `json:"status,omitzero"`
}

// LBNodeAgentList is a list of LBNodeAgents.
//
// +kubebuilder:object:root=true
type LBNodeAgentList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LBNodeAgent `json:"items"`
}

// LBNodeAgentSpec is what the agents of the selected nodes should do.
type LBNodeAgentSpec struct {
	// nodeSelector selects nodes by their labels. Default: all nodes. If it is
	// malformed, the LBNodeAgent is not accepted.
	// +optional
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`

	// local configures the interfaces. "local: {}" means all defaults. An
	// LBNodeAgent without local asks for nothing: it comes after all LBNodeAgents
	// with local, and its nodes use the defaults.
	// +optional
	Local *InterfaceSpec `json:"local,omitempty"`
}

// InterfaceSpec says which interfaces carry addresses, and with which
// attributes.
//
// +kubebuilder:validation:XValidation:rule="!has(self.interfaces) || !((has(self.dummyInterface) ? self.dummyInterface : has(self.extlbint) ? self.extlbint : 'kube-lb0') in self.interfaces)",message="interfaces must not hold the dummy interface: it carries remote addresses on every node, and local ones never"
type InterfaceSpec struct {
	// localInterface says which interfaces carry local addresses. "default" is
	// the interface of the default route (of each IP family). "all" is every
	// interface that leads to a network of other machines: first those of the
	// default route, then, by name, network cards, bonds, VLANs and the like. A
	// bridge or a tunnel may belong to the pod network, so it counts only if it
	// has the default route or is named in interfaces. Any other text is a
	// regular expression (Go syntax) that must match the whole name of an
	// interface, such as "eth1" or "en(p3|p4)s0". Default: "default". With a
	// malformed expression, the LBNodeAgent is not used. If an expression matches
	// no interface of a node, the condition Announcing reports it.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	LocalInterface string `json:"localInterface,omitempty"`

	// localint is the name of localInterface in purelb.io/v1. If both are set,
	// localInterface is used.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	LocalInt string `json:"localint,omitempty"`

	// dummyInterface is the name of the interface that carries remote addresses.
	// The agent creates it if it is missing, and uses an existing one unchanged.
	// Default: "kube-lb0".
	// +optional
	DummyInterface InterfaceName `json:"dummyInterface,omitempty"`

	// extlbint is the name of dummyInterface in purelb.io/v1. If both are set,
	// dummyInterface is used.
	// +optional
	ExtLBInt InterfaceName `json:"extlbint,omitempty"`

	// interfaces are exact names of further interfaces for local addresses, in
	// order of preference. They come after localInterface. A node skips those
	// that it does not have. Default: none.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.all(name, self.exists_one(other, other == name))",message="interfaces must not hold the same name twice"
	// +listType=atomic
	// +optional
	Interfaces []InterfaceName `json:"interfaces,omitempty"`

	// networks are further networks in which the nodes announce local addresses,
	// on the first interface that carries local addresses of the IP family: a
	// second network of the router on the same segment, in which the nodes have no
	// address. An interface with an address in the network comes first. Replies to
	// clients leave by the routes of the node. Default: none.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	Networks []Subnet `json:"networks,omitempty"`

	// protectNode closes the ports of the node itself at the addresses of Services:
	// ssh, the kubelet and the like. What kube-proxy does not translate is dropped
	// there, by one nftables table of the agent (purelb); UDP is refused.
	// ICMP is answered. The node's own addresses stay as they are. If kube-proxy
	// uses IPVS, or the kernel refuses nftables, the ports stay open, and the
	// condition Announcing says so. Default: true.
	// +optional
	ProtectNode *bool `json:"protectNode,omitempty"`

	// sendgarp switches gratuitous ARP on (true) or off (false) in purelb.io/v1.
	// If garpConfig is set, sendgarp has no effect. Default: true.
	// +optional
	SendGARP *bool `json:"sendgarp,omitempty"`

	// garpConfig says how a node announces a local address to the nodes and
	// routers of the segment: by gratuitous ARP (IPv4) and unsolicited Neighbor
	// Advertisements (IPv6). Default: on, with the defaults of its fields.
	// +optional
	GARPConfig *GARPConfig `json:"garpConfig,omitempty"`

	// addressConfig sets the attributes that addresses get in the kernel.
	// +optional
	AddressConfig *AddressConfig `json:"addressConfig,omitempty"`
}

// GARPConfig is the schedule of gratuitous ARP and unsolicited Neighbor
// Advertisements after a node has taken an address.
type GARPConfig struct {
	// enabled false sends no packets. Routers then keep sending to a failed node
	// until their neighbor entries time out. Default: true.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`

	// initialDelay is the time from adding an address to the first packet, such
	// as "100ms". If another node had the address before, one more packet is sent
	// at once. Default: "100ms".
	// +optional
	InitialDelay Duration `json:"initialDelay,omitempty"`

	// count is the number of packets after initialDelay. Default: 3.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	// +optional
	Count *int32 `json:"count,omitempty"`

	// interval is the time from one packet to the next, such as "500ms".
	// Default: "500ms".
	// +optional
	Interval Duration `json:"interval,omitempty"`

	// verifyBeforeSend makes the node check before each packet that it still has
	// the address. Default: true.
	// +optional
	VerifyBeforeSend *bool `json:"verifyBeforeSend,omitempty"`
}

// AddressConfig are the attributes of addresses, by interface.
type AddressConfig struct {
	// localInterface is for local addresses. Defaults: validLifetime 60,
	// preferredLifetime equal to validLifetime, noPrefixRoute true. For IPv6 the
	// preferredLifetime is always 0, so that nodes do not use a Service's address
	// for their own connections.
	// +optional
	LocalInterface *AddressAttributes `json:"localInterface,omitempty"`

	// dummyInterface is for remote addresses. Defaults: validLifetime 0 (for
	// ever), preferredLifetime equal to validLifetime, noPrefixRoute false.
	// +optional
	DummyInterface *AddressAttributes `json:"dummyInterface,omitempty"`
}

// AddressAttributes are attributes of an address in the kernel.
type AddressAttributes struct {
	// validLifetime is the time in seconds after which the kernel removes an
	// address that the agent no longer refreshes. So a node whose agent is gone
	// for good does not answer for ever. 0 means never; 1 to 59 count as 60.
	// +kubebuilder:validation:XValidation:rule="self >= 0",message="validLifetime must not be negative: it is in seconds, 0 for ever, otherwise 60 or more"
	// +optional
	ValidLifetime *int32 `json:"validLifetime,omitempty"`

	// preferredLifetime is how many seconds the kernel may choose the address as
	// the source of new connections. More than validLifetime counts as
	// validLifetime. If validLifetime is finite, 0 means never. Default: the
	// value of validLifetime.
	// +kubebuilder:validation:XValidation:rule="self >= 0",message="preferredLifetime must not be negative: it is in seconds, and at most validLifetime"
	// +optional
	PreferredLifetime *int32 `json:"preferredLifetime,omitempty"`

	// noPrefixRoute keeps the kernel from adding a route to the address's network
	// through this interface.
	// +optional
	NoPrefixRoute *bool `json:"noPrefixRoute,omitempty"`
}

// InterfaceName is the name of a network interface.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule="self.matches('^[^/:\\\\s]{1,15}$') && self != '.' && self != '..'",message="the name of an interface has 1 to 15 characters, without spaces, '/' and ':'"
type InterfaceName string

// Duration is a span of time such as "100ms", "0s" or "1m30s".
//
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:XValidation:rule="self.matches('^(0|([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+)$')",message="must be a duration that is not negative, such as 100ms or 1.5s"
type Duration string
