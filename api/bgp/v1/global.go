package v1

// Global has the settings of a node as a whole.
type Global struct {
	// asn is the number of the nodes' autonomous system, 1 to 4294967295 without
	// 23456 (RFC 6793). With another value nothing of the configuration takes
	// effect. A change restarts all sessions.
	// +required
	ASN int64 `json:"asn"`

	// routerID is the node's identifier in BGP. Each node needs its own. It is an
	// IPv4 address; "${NODE_IP}" or "${NODE_IPV4}" for the node's first internal
	// IPv4 address; "${NODE_EXTERNAL_IP}" for its first external one; or
	// "${node.annotations['key']}" or "${node.labels['key']}" for the value of an
	// annotation or a label of the node.
	// Default: the first internal IPv4 address or, on nodes without one, an
	// address of routerIDPool chosen by the hash of the node's name. If it does
	// not yield a usable IPv4 address, the node does not speak BGP. A change
	// restarts all sessions.
	// +optional
	RouterID string `json:"routerID,omitempty"`

	// routerIDPool is the IPv4 network, /24 or larger, for the identifiers of
	// nodes without an IPv4 address. The more addresses it has, the less likely is
	// it that two nodes get the same one. Default: "10.0.0.0/8".
	// +optional
	RouterIDPool string `json:"routerIDPool,omitempty"`

	// listenPort is the TCP port on which the node listens for neighbors. With -1
	// the node does not listen and only connects. Default (0): 179 if a neighbor has
	// transport.passiveMode, or if there are listenAddresses; otherwise the node
	// does not listen. If another program has the port, the node
	// goes on without listening, and its BGPNodeStatus says so.
	// +optional
	ListenPort int32 `json:"listenPort,omitempty"`

	// listenAddresses are the node's addresses on which it listens for neighbors.
	// "${NODE_IP}" means the internal addresses of the Node: with it, no neighbor
	// can connect to the addresses of Services. An entry that is not an address is
	// ignored. An address that the node does not have is ignored until the node
	// has it; the BGPNodeStatus says so. On a node that has none of these
	// addresses, the previous configuration stays in effect, or nothing runs. A
	// change restarts all sessions. Default: all addresses of the node.
	// +listType=atomic
	// +optional
	ListenAddresses []string `json:"listenAddresses,omitempty"`

	// families are the address families to exchange: ipv4-unicast and
	// ipv6-unicast. Other families are not supported, and are reported. Default:
	// both.
	// +listType=atomic
	// +optional
	Families []string `json:"families,omitempty"`

	// useMultiplePaths is not supported: one path to a destination goes into
	// routing tables. It is reported if it is true.
	// +optional
	UseMultiplePaths bool `json:"useMultiplePaths,omitempty"`

	// allowTransit is not supported: nodes announce only their own routes. It is
	// reported if it is true.
	// +optional
	AllowTransit bool `json:"allowTransit,omitempty"`

	// routeSelectionOptions are not supported. Each is reported if it is set.
	// +optional
	RouteSelectionOptions *RouteSelectionOptions `json:"routeSelectionOptions,omitempty"`

	// defaultRouteDistance is not supported, because PureLB has no administrative
	// distances. It is reported if it is set; use the metric of the rules of
	// netlinkExport.
	// +optional
	DefaultRouteDistance *DefaultRouteDistance `json:"defaultRouteDistance,omitempty"`

	// confederation is not supported (RFC 5065). It is reported if it is enabled;
	// use localAsn of neighbors that expect another number of the nodes.
	// +optional
	Confederation *Confederation `json:"confederation,omitempty"`

	// gracefulRestart has the defaults for all neighbors and peer groups, field
	// by field.
	// +optional
	GracefulRestart *GracefulRestart `json:"gracefulRestart,omitempty"`

	// applyPolicy names policies. Not supported: it has no effect, and the status
	// says so. Use spec.bgp of ServiceGroups.
	// +optional
	ApplyPolicy *Unread `json:"applyPolicy,omitempty"`

	// bindToDevice is the interface to which all sessions are bound, except those
	// with a bindInterface. BFD is not bound to it. On a node without this device,
	// the previous configuration stays in effect, or nothing runs. A change
	// restarts all sessions. VRF devices are not supported. Default: none.
	// +optional
	BindToDevice string `json:"bindToDevice,omitempty"`

	// nodeStatus configures the BGPNodeStatus of the nodes.
	// +optional
	NodeStatus *NodeStatusOptions `json:"nodeStatus,omitempty"`
}

// RouteSelectionOptions are not supported.
type RouteSelectionOptions struct {
	// alwaysCompareMed is not supported. It is reported if it is true.
	// +optional
	AlwaysCompareMED bool `json:"alwaysCompareMed,omitempty"`

	// advertiseInactiveRoutes is not supported: announcements do not depend on
	// routing tables. It is reported if it is true.
	// +optional
	AdvertiseInactiveRoutes bool `json:"advertiseInactiveRoutes,omitempty"`
}

// DefaultRouteDistance is not supported.
type DefaultRouteDistance struct {
	// externalRouteDistance is not supported.
	// +optional
	ExternalRouteDistance int32 `json:"externalRouteDistance,omitempty"`

	// internalRouteDistance is not supported.
	// +optional
	InternalRouteDistance int32 `json:"internalRouteDistance,omitempty"`
}

// Confederation is not supported.
type Confederation struct {
	// enabled is not supported.
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// identifier is not supported.
	// +optional
	Identifier int64 `json:"identifier,omitempty"`

	// memberAsList is not supported.
	// +listType=atomic
	// +optional
	MemberASList []int64 `json:"memberAsList,omitempty"`
}

// NodeStatusOptions configure the BGPNodeStatus of the nodes.
type NodeStatusOptions struct {
	// enabled says whether nodes write a BGPNodeStatus. Default: true.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`

	// heartbeatSeconds is the interval of writes if nothing changes. Changes are
	// written within three seconds,
	// or within 16 seconds if the status changes again and again. Default: 60.
	// +kubebuilder:validation:Minimum=10
	// +optional
	HeartbeatSeconds int32 `json:"heartbeatSeconds,omitempty"`
}
