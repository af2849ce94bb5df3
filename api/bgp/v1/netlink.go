package v1

// NetlinkImport says which addresses of a node are announced: the networks of
// those on some interfaces, by the masks that the addresses have there.
type NetlinkImport struct {
	// enabled switches it on. Default: false, and then the other fields are not
	// in effect.
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// vrf is the name of one of vrfs that the addresses are announced in.
	// Default: none.
	// +optional
	VRF string `json:"vrf,omitempty"`

	// interfaceList are names of interfaces, or patterns of them such as
	// "eth*". Default: the dummy interface that carries remote addresses.
	// +listType=atomic
	// +optional
	InterfaceList []string `json:"interfaceList,omitempty"`
}

// NetlinkExport says which routes that were learned go into the routing tables
// of a node.
type NetlinkExport struct {
	// enabled switches it on. Default: false, and then the other fields are not
	// in effect.
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// dampeningInterval is for how many milliseconds changes are collected
	// before they go into the tables, at most 60000. Default (0): 100.
	// +optional
	DampeningInterval int32 `json:"dampeningInterval,omitempty"`

	// routeProtocol is the number that marks the routes as ours in the tables
	// (see /etc/iproute2/rt_protos), 5 to 255. Nothing is exported into a table
	// in which another program has routes with this number. Default (0): 186,
	// "bgp".
	// +optional
	RouteProtocol int32 `json:"routeProtocol,omitempty"`

	// rules say which routes go where. A route that meets several goes to
	// several places. Without a rule nothing is put anywhere.
	// +listType=atomic
	// +optional
	Rules []ExportRule `json:"rules,omitempty"`
}

// ExportRule says which routes go into a routing table.
type ExportRule struct {
	// name is for people, and must be the only one of its name.
	// +required
	Name string `json:"name"`

	// communityList are communities such as "64512:100"; routes that have one
	// of them, or of largeCommunityList, meet the rule. A rule with a malformed
	// one is not in use. Default: all routes.
	// +listType=atomic
	// +optional
	CommunityList []string `json:"communityList,omitempty"`

	// largeCommunityList are large communities such as "64512:100:1".
	// +listType=atomic
	// +optional
	LargeCommunityList []string `json:"largeCommunityList,omitempty"`

	// vrf is the Linux VRF device whose table the routes go into. Default: that
	// of tableId.
	// +optional
	VRF string `json:"vrf,omitempty"`

	// tableId is the number of the routing table. Default (0): the main one.
	// +optional
	TableID int64 `json:"tableId,omitempty"`

	// metric is the metric of the routes: of several to one destination the
	// kernel uses that with the lowest. Default (0): 20.
	// +optional
	Metric int64 `json:"metric,omitempty"`

	// validateNexthop leaves out routes whose next hop cannot be reached.
	// Default: true.
	// +optional
	ValidateNexthop *bool `json:"validateNexthop,omitempty"`

	// allowDefaultRoute lets the rule also put a default route into the table.
	// Default: false.
	// +optional
	AllowDefaultRoute bool `json:"allowDefaultRoute,omitempty"`
}

// VRF is a routing table of its own.
type VRF struct {
	// name is what neighbors and netlinkImport call it. It must be the only one
	// of its name; a second one is not in effect.
	// +required
	Name string `json:"name"`

	// rd is the route distinguisher, such as "64512:100" or "192.0.2.1:100".
	// +optional
	RD string `json:"rd,omitempty"`

	// importRt are the route targets of routes that come into it.
	// +listType=atomic
	// +optional
	ImportRT []string `json:"importRt,omitempty"`

	// exportRt are the route targets that its routes get.
	// +listType=atomic
	// +optional
	ExportRT []string `json:"exportRt,omitempty"`

	// netlinkImport says which addresses of the node are announced in it.
	// +optional
	NetlinkImport *VRFImport `json:"netlinkImport,omitempty"`

	// netlinkExport says into which routing table its routes go.
	// +optional
	NetlinkExport *VRFExport `json:"netlinkExport,omitempty"`
}

// VRFImport says which addresses of a node are announced in a VRF.
type VRFImport struct {
	// enabled switches it on. Default: false.
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// interfaceList are names of interfaces, or patterns of them such as
	// "eth*". Without one nothing is announced.
	// +listType=atomic
	// +optional
	InterfaceList []string `json:"interfaceList,omitempty"`
}

// VRFExport says into which routing table the routes of a VRF go.
type VRFExport struct {
	// enabled switches it on. Default: false.
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// linuxVrf is the Linux VRF device whose table the routes go into. Default:
	// that of linuxTableId, or without it that of the name of the VRF.
	// +optional
	LinuxVRF string `json:"linuxVrf,omitempty"`

	// linuxTableId is the number of the routing table. Default (0): that of
	// linuxVrf.
	// +optional
	LinuxTableID int64 `json:"linuxTableId,omitempty"`

	// metric is the metric of the routes. Default (0): 20.
	// +optional
	Metric int64 `json:"metric,omitempty"`

	// validateNexthop leaves out routes whose next hop cannot be reached.
	// Default: true.
	// +optional
	ValidateNexthop *bool `json:"validateNexthop,omitempty"`

	// communityList are communities such as "64512:100"; routes that have one
	// of them, or of largeCommunityList, go into the table. Default: all.
	// +listType=atomic
	// +optional
	CommunityList []string `json:"communityList,omitempty"`

	// largeCommunityList are large communities such as "64512:100:1".
	// +listType=atomic
	// +optional
	LargeCommunityList []string `json:"largeCommunityList,omitempty"`
}
