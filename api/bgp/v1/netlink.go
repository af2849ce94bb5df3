package v1

// NetlinkImport says which addresses of a node are announced: the networks of the
// addresses on some interfaces, with the masks that the addresses have there.
type NetlinkImport struct {
	// enabled switches the import on. Default: false; the other fields then have
	// no effect.
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// vrf is the name of the VRF in which the addresses are announced. Not
	// supported: with a VRF nothing is imported, and the status says so. Default:
	// none.
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

	// routeProtocol is the protocol number of PureLB's routes in the tables (see
	// /etc/iproute2/rt_protos), 5 to 255. Another program may use the same number:
	// PureLB knows its routes by another mark. Default (0): 186, "bgp".
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
	// name is for people.
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

	// vrf is the Linux VRF device whose table gets the routes. Not supported: a
	// rule with vrf and no tableId is not in use. With both, tableId counts. The
	// status says so. Default: none.
	// +optional
	VRF string `json:"vrf,omitempty"`

	// tableId is the number of the routing table. Default (0): the main one.
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

// VRF is a separate routing table. VRFs are not supported: they have no effect.
type VRF struct {
	// name is the name of the VRF.
	// +required
	Name string `json:"name"`

	// rd is the route distinguisher, such as "64512:100". It has no effect.
	// +optional
	RD string `json:"rd,omitempty"`

	// importRt are route targets. They have no effect.
	// +listType=atomic
	// +optional
	ImportRT []string `json:"importRt,omitempty"`

	// exportRt are route targets. They have no effect.
	// +listType=atomic
	// +optional
	ExportRT []string `json:"exportRt,omitempty"`

	// netlinkImport has no effect. Addresses of the node are announced outside of
	// VRFs, by spec.netlinkImport.
	// +optional
	NetlinkImport *VRFImport `json:"netlinkImport,omitempty"`

	// netlinkExport has no effect. Learned routes go into routing tables by the
	// rules of spec.netlinkExport.
	// +optional
	NetlinkExport *VRFExport `json:"netlinkExport,omitempty"`
}

// VRFImport has no effect, because VRFs are not supported.
type VRFImport struct {
	// enabled has no effect.
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// interfaceList has no effect.
	// +listType=atomic
	// +optional
	InterfaceList []string `json:"interfaceList,omitempty"`
}

// VRFExport has no effect, because VRFs are not supported.
type VRFExport struct {
	// enabled has no effect.
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// linuxVrf has no effect.
	// +optional
	LinuxVRF string `json:"linuxVrf,omitempty"`

	// linuxTableId has no effect. Use tableId in a rule of spec.netlinkExport.
	// +optional
	LinuxTableID int64 `json:"linuxTableId,omitempty"`

	// metric has no effect.
	// +optional
	Metric int64 `json:"metric,omitempty"`

	// validateNexthop has no effect.
	// +optional
	ValidateNexthop *bool `json:"validateNexthop,omitempty"`

	// communityList has no effect.
	// +listType=atomic
	// +optional
	CommunityList []string `json:"communityList,omitempty"`

	// largeCommunityList has no effect.
	// +listType=atomic
	// +optional
	LargeCommunityList []string `json:"largeCommunityList,omitempty"`
}
