package v1

// NetlinkImport says which addresses of a node are announced: the networks of the
// addresses on some interfaces, with the masks that the addresses have there.
type NetlinkImport struct {
	// enabled switches the import on. Default: false; the other fields then have
	// no effect.
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// vrf is the name of the VRF, one of vrfs, in which the addresses are
	// announced. Default: none.
	// +optional
	VRF string `json:"vrf,omitempty"`

	// interfaceList are names of interfaces, or patterns of them such as
	// "eth*". Default: the dummy interface that carries remote addresses.
	// +listType=atomic
	// +optional
	InterfaceList []string `json:"interfaceList,omitempty"`
}

// NetlinkExport says which learned routes go into the routing tables of a node.
type NetlinkExport struct {
	// enabled switches the export on. Default: false; the other fields then have
	// no effect.
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// dampeningInterval is how many milliseconds the node collects changes before
	// it writes them into the tables, at most 60000. Default (0): 100.
	// +optional
	DampeningInterval int32 `json:"dampeningInterval,omitempty"`

	// routeProtocol is the number that marks PureLB's routes in the tables (see
	// /etc/iproute2/rt_protos), 5 to 255. If another program has routes with this
	// number in a table, nothing is exported into that table. Default (0): 186,
	// "bgp".
	// +optional
	RouteProtocol int32 `json:"routeProtocol,omitempty"`

	// rules say which routes go into which tables. A route that matches several
	// rules goes into several tables. Without a rule, no route goes anywhere.
	// +listType=atomic
	// +optional
	Rules []ExportRule `json:"rules,omitempty"`
}

// ExportRule says which routes go into a routing table.
type ExportRule struct {
	// name is for people. It must be unique.
	// +required
	Name string `json:"name"`

	// communityList are communities such as "64512:100". A route matches the rule
	// if it has one of them or of largeCommunityList. A rule with a malformed
	// community is not in use. Default: all routes.
	// +listType=atomic
	// +optional
	CommunityList []string `json:"communityList,omitempty"`

	// largeCommunityList are large communities such as "64512:100:1".
	// +listType=atomic
	// +optional
	LargeCommunityList []string `json:"largeCommunityList,omitempty"`

	// vrf is the Linux VRF device whose table gets the routes. Default: the table
	// of tableId.
	// +optional
	VRF string `json:"vrf,omitempty"`

	// tableId is the number of the routing table. With vrf, it must be the table
	// of that device; on a node without the device, tableId counts. Default (0):
	// the table of vrf, or the main one.
	// +optional
	TableID int64 `json:"tableId,omitempty"`

	// metric is the metric of the routes. Of several routes to one destination,
	// the kernel uses the one with the lowest metric. Default (0): 20.
	// +optional
	Metric int64 `json:"metric,omitempty"`

	// validateNexthop skips routes whose next hop cannot be reached. Default:
	// true.
	// +optional
	ValidateNexthop *bool `json:"validateNexthop,omitempty"`

	// allowDefaultRoute lets the rule also put a default route into the table.
	// Default: false.
	// +optional
	AllowDefaultRoute bool `json:"allowDefaultRoute,omitempty"`
}

// VRF is a separate routing table.
type VRF struct {
	// name is the name by which neighbors and netlinkImport refer to the VRF. It
	// must be unique; a second VRF of this name is not in effect.
	// +required
	Name string `json:"name"`

	// rd is the route distinguisher, such as "64512:100" or "192.0.2.1:100".
	// +optional
	RD string `json:"rd,omitempty"`

	// importRt are the route targets of the routes that it imports.
	// +listType=atomic
	// +optional
	ImportRT []string `json:"importRt,omitempty"`

	// exportRt are the route targets that it sets on its routes.
	// +listType=atomic
	// +optional
	ExportRT []string `json:"exportRt,omitempty"`

	// netlinkImport says which addresses of the node are announced in the VRF.
	// +optional
	NetlinkImport *VRFImport `json:"netlinkImport,omitempty"`

	// netlinkExport says which routing table gets its routes.
	// +optional
	NetlinkExport *VRFExport `json:"netlinkExport,omitempty"`
}

// VRFImport says which addresses of a node are announced in a VRF.
type VRFImport struct {
	// enabled switches it on. Default: false.
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// interfaceList are names of interfaces, or patterns of them such as "eth*".
	// Without an entry nothing is announced.
	// +listType=atomic
	// +optional
	InterfaceList []string `json:"interfaceList,omitempty"`
}

// VRFExport says which routing table gets the routes of a VRF.
type VRFExport struct {
	// enabled switches it on. Default: false.
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// linuxVrf is the Linux VRF device whose table gets the routes. Default: the
	// table of linuxTableId or, without it, the device with the name of the VRF.
	// +optional
	LinuxVRF string `json:"linuxVrf,omitempty"`

	// linuxTableId is the number of the routing table. With linuxVrf, it must be
	// the table of that device; on a node without the device, linuxTableId counts.
	// Default (0): the table of linuxVrf.
	// +optional
	LinuxTableID int64 `json:"linuxTableId,omitempty"`

	// metric is the metric of the routes. Default (0): 20.
	// +optional
	Metric int64 `json:"metric,omitempty"`

	// validateNexthop skips routes whose next hop cannot be reached. Default:
	// true.
	// +optional
	ValidateNexthop *bool `json:"validateNexthop,omitempty"`

	// communityList are communities such as "64512:100". A route goes into the
	// table if it has one of them or of largeCommunityList. Default: all routes.
	// +listType=atomic
	// +optional
	CommunityList []string `json:"communityList,omitempty"`

	// largeCommunityList are large communities such as "64512:100:1".
	// +listType=atomic
	// +optional
	LargeCommunityList []string `json:"largeCommunityList,omitempty"`
}
