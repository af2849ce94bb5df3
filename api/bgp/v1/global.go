package v1

// Global is what concerns a node as a whole.
type Global struct {
	// asn is the number of the autonomous system of the nodes, 1 to 4294967295
	// without 23456 (RFC 6793). With another value nothing of the
	// configuration takes effect. A change ends all sessions and begins them
	// anew.
	// +required
	ASN int64 `json:"asn"`

	// routerID is the node's identifier in BGP, which every node needs for
	// itself: an IPv4 address; "${NODE_IP}" or "${NODE_IPV4}" for the node's
	// first internal IPv4 address; "${NODE_EXTERNAL_IP}" for its first external
	// one; or "${node.annotations['key']}" for the value of an annotation of
	// the node. Default: the first internal IPv4 address, and on nodes without
	// one an address of routerIDPool by the hash of the node's name. Where it
	// does not lead to an IPv4 address that can be used, the node does not
	// speak BGP. A change ends all sessions and begins them anew.
	// +optional
	RouterID string `json:"routerID,omitempty"`

	// routerIDPool is the IPv4 network, /24 or larger, that the identifiers of
	// nodes without an IPv4 address are from. Default: "10.255.0.0/16".
	// +optional
	RouterIDPool string `json:"routerIDPool,omitempty"`

	// listenPort is the TCP port where neighbors are listened for; -1 is
	// nowhere, so that the node only connects. Default (0): 179.
	// +optional
	ListenPort int32 `json:"listenPort,omitempty"`

	// listenAddresses are the node's addresses where neighbors are listened
	// for. One that is not an address is left out, and one that the node does
	// not have, until it has it; the BGPNodeStatus says so. On a node that has
	// none of them, what ran before runs on, or nothing. A change ends all
	// sessions and begins them anew. Default: all addresses of the node.
	// +listType=atomic
	// +optional
	ListenAddresses []string `json:"listenAddresses,omitempty"`

	// families are the address families that are exchanged: ipv4-unicast and
	// ipv6-unicast. Others are not supported and reported. Default: both.
	// +listType=atomic
	// +optional
	Families []string `json:"families,omitempty"`

	// useMultiplePaths uses all paths to a destination that are equally good,
	// and not just one of them, for what netlinkExport puts into routing
	// tables. Default: false.
	// +optional
	UseMultiplePaths bool `json:"useMultiplePaths,omitempty"`

	// allowTransit passes on to neighbors what was learned from other
	// neighbors. Nodes are not routers: without it they announce only what is
	// their own (and to route reflector clients what they learned from
	// neighbors in their own AS). Default: false.
	// +optional
	AllowTransit bool `json:"allowTransit,omitempty"`

	// routeSelectionOptions change how the best of several paths is found.
	// +optional
	RouteSelectionOptions *RouteSelectionOptions `json:"routeSelectionOptions,omitempty"`

	// defaultRouteDistance is not supported: there are no administrative
	// distances here. It is reported when it is set; use the metric of the
	// rules of netlinkExport.
	// +optional
	DefaultRouteDistance *DefaultRouteDistance `json:"defaultRouteDistance,omitempty"`

	// confederation makes several autonomous systems look like one from
	// outside (RFC 5065).
	// +optional
	Confederation *Confederation `json:"confederation,omitempty"`

	// gracefulRestart is the default of all neighbors and peer groups, field by
	// field.
	// +optional
	GracefulRestart *GracefulRestart `json:"gracefulRestart,omitempty"`

	// applyPolicy names the policies for all neighbors. They come after those
	// that a neighbor has itself, for what these have not decided. While it
	// names a policy that does not exist or is not well, nothing of the
	// configuration takes effect: nothing is announced without its policy.
	// +optional
	ApplyPolicy *ApplyPolicy `json:"applyPolicy,omitempty"`

	// bindToDevice is the interface or VRF device that all sessions are bound
	// to, but for those with a bindInterface. BFD is not bound to it. On a node
	// that does not have it, what ran before runs on, or nothing. A change ends
	// all sessions and begins them anew. Default: none.
	// +optional
	BindToDevice string `json:"bindToDevice,omitempty"`

	// nodeStatus configures the BGPNodeStatus of the nodes.
	// +optional
	NodeStatus *NodeStatusOptions `json:"nodeStatus,omitempty"`
}

// RouteSelectionOptions change how the best of several paths is found.
type RouteSelectionOptions struct {
	// alwaysCompareMed compares the MED also of paths from different
	// autonomous systems. Default: false.
	// +optional
	AlwaysCompareMED bool `json:"alwaysCompareMed,omitempty"`

	// advertiseInactiveRoutes is not supported: which routes are announced does
	// not depend on routing tables. It is reported when it is true.
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

// Confederation makes several autonomous systems look like one from outside.
type Confederation struct {
	// enabled switches the confederation on. Default: false, and then the other
	// fields are not in effect.
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// identifier is the number of the autonomous system that the confederation
	// is from outside. Without a valid one nothing of the configuration takes
	// effect.
	// +optional
	Identifier int64 `json:"identifier,omitempty"`

	// memberAsList are the numbers of the autonomous systems that the
	// confederation consists of.
	// +listType=atomic
	// +optional
	MemberASList []int64 `json:"memberAsList,omitempty"`
}

// NodeStatusOptions configure the BGPNodeStatus of the nodes.
type NodeStatusOptions struct {
	// enabled says whether nodes write a BGPNodeStatus. Default: true.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`

	// heartbeatSeconds is how often it is written when nothing changes.
	// Changes are written within two seconds. Default: 60.
	// +kubebuilder:validation:Minimum=10
	// +optional
	HeartbeatSeconds int32 `json:"heartbeatSeconds,omitempty"`
}
