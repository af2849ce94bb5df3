package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BGPNodeStatus reports the state of BGP on the node of the same name. The node
// writes it when something changes, and otherwise as a heartbeat.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=bgpnodestatuses,singular=bgpnodestatus,scope=Cluster,shortName=bgpns
// +kubebuilder:printcolumn:name=Node,type=string,JSONPath=`.status.nodeName`
// +kubebuilder:printcolumn:name=RouterID,type=string,JSONPath=`.status.routerID`
// +kubebuilder:printcolumn:name=Healthy,type=boolean,JSONPath=`.status.healthy`
// +kubebuilder:printcolumn:name=Neighbors,type=integer,JSONPath=`.status.neighborCount`
// +kubebuilder:printcolumn:name=LastUpdated,type=date,JSONPath=`.status.lastUpdated`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type BGPNodeStatus struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is empty: a BGPNodeStatus only reports.
	// +optional
	Spec BGPNodeStatusSpec `json:"spec,omitzero"`

	// status is what the node reports.
	// +optional
	Status BGPNodeStatusStatus `json:"status,omitzero"`
}

// BGPNodeStatusSpec is empty.
type BGPNodeStatusSpec struct{}

// BGPNodeStatusList is a list of BGPNodeStatuses.
//
// +kubebuilder:object:root=true
type BGPNodeStatusList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []BGPNodeStatus `json:"items"`
}

// BGPNodeStatusStatus is what a node reports.
type BGPNodeStatusStatus struct {
	// nodeName is the name of the node.
	// +required
	NodeName string `json:"nodeName"`

	// routerID is the node's identifier in BGP.
	// +optional
	RouterID string `json:"routerID,omitempty"`

	// routerIDSource is the source of routerID: "explicit", "template",
	// "node-ipv4" or "hash-from-node-name".
	// +optional
	RouterIDSource string `json:"routerIDSource,omitempty"`

	// asn is the number of the node's autonomous system.
	// +optional
	ASN int64 `json:"asn,omitempty"`

	// lastUpdated is when this was written.
	// +optional
	LastUpdated *metav1.Time `json:"lastUpdated,omitempty"`

	// heartbeatSeconds is the interval of writes if nothing changes. If there is
	// no write for three times as long, the speaker of the node does not run, or
	// does not reach the API server.
	// +optional
	HeartbeatSeconds int32 `json:"heartbeatSeconds,omitempty"`

	// neighborCount is how many neighbors the node should have a session with.
	// +required
	NeighborCount int32 `json:"neighborCount"`

	// healthy says whether everything works: every neighbor that is not shut down
	// on purpose is Established, every imported address is announced, every
	// exported route is in its table, and no neighbor is left out. The condition
	// Configured names smaller parts of the configuration that are not in effect.
	// +optional
	Healthy bool `json:"healthy"`

	// conditions have the types Ready (the same as healthy, with the reasons),
	// Configured (which part of the BGPConfiguration is not in effect on the
	// node) and RouterIDResolved.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// neighbors are the sessions of the node.
	// +listType=atomic
	// +optional
	Neighbors []NodeNeighbor `json:"neighbors,omitempty"`

	// netlinkImport is what the node announces of its own addresses.
	// +optional
	NetlinkImport *NodeImport `json:"netlinkImport,omitempty"`

	// rib is what the node announces and what it learned.
	// +optional
	RIB *NodeRIB `json:"rib,omitempty"`

	// netlinkExport is what the node has put into its routing tables.
	// +optional
	NetlinkExport *NodeExport `json:"netlinkExport,omitempty"`

	// vrfs is always empty: VRFs are not supported.
	// +listType=atomic
	// +optional
	VRFs []NodeVRF `json:"vrfs,omitempty"`
}

// NodeNeighbor is a session of a node.
type NodeNeighbor struct {
	// address is the neighbor's address. For an unnumbered neighbor whose address
	// is not known yet, it is "%" and the interface.
	// +required
	Address string `json:"address"`

	// interface is the interface of an unnumbered neighbor.
	// +optional
	Interface string `json:"interface,omitempty"`

	// peerASN is the number of the neighbor's autonomous system.
	// +required
	PeerASN int64 `json:"peerASN"`

	// localASN is the number of the node's autonomous system in this session.
	// +required
	LocalASN int64 `json:"localASN"`

	// state is Idle, Connect, Active, OpenSent, OpenConfirm or Established.
	// +required
	State string `json:"state"`

	// stateSince is the time since which the session has had this state.
	// +optional
	StateSince *metav1.Time `json:"stateSince,omitempty"`

	// sessionUpSince is the time since which the session has been Established.
	// +optional
	SessionUpSince *metav1.Time `json:"sessionUpSince,omitempty"`

	// families are the address families to which both sides have agreed, while the
	// session is Established.
	// +listType=map
	// +listMapKey=family
	// +optional
	Families []NeighborFamily `json:"families,omitempty"`

	// gracefulRestart says whether the neighbor keeps the routes of the node, for the
	// families of the session, while the speaker restarts. It is set while the
	// session is Established, if the configuration asks the neighbor for it.
	// +optional
	GracefulRestart *bool `json:"gracefulRestart,omitempty"`

	// prefixesSent is how many prefixes the node announces to the neighbor.
	// +required
	PrefixesSent int64 `json:"prefixesSent"`

	// prefixesReceived is how many prefixes the neighbor announces.
	// +required
	PrefixesReceived int64 `json:"prefixesReceived"`

	// description is the description in the configuration.
	// +optional
	Description string `json:"description,omitempty"`

	// lastError is why there is no session: the message of the neighbor, a
	// mistake in the configuration, or that the neighbor does not answer. It also
	// says since when nothing has changed.
	// +optional
	LastError string `json:"lastError,omitempty"`

	// bfd is the state of the BFD session with the neighbor, if BFD is enabled:
	// Up, Init, Down or AdminDown.
	// +optional
	BFD string `json:"bfd,omitempty"`
}

// NeighborFamily is an address family of a session.
type NeighborFamily struct {
	// family is ipv4-unicast or ipv6-unicast.
	// +required
	Family string `json:"family"`

	// prefixesSent is how many prefixes of the family the node announces to the
	// neighbor.
	// +required
	PrefixesSent int64 `json:"prefixesSent"`
}

// NodeImport is what a node announces of its own addresses.
type NodeImport struct {
	// enabled says whether addresses are imported.
	// +required
	Enabled bool `json:"enabled"`

	// vrf is always empty: VRFs are not supported.
	// +optional
	VRF string `json:"vrf,omitempty"`

	// interfaces are the interfaces whose addresses are imported.
	// +listType=atomic
	// +optional
	Interfaces []NodeInterface `json:"interfaces,omitempty"`

	// importedAddresses are some of the addresses, at most 5. Those that are not
	// announced come first.
	// +listType=atomic
	// +optional
	ImportedAddresses []ImportedAddress `json:"importedAddresses,omitempty"`

	// totalImported is how many addresses are imported.
	// +required
	TotalImported int32 `json:"totalImported"`

	// truncated says that importedAddresses is not all of them.
	// +optional
	Truncated bool `json:"truncated,omitempty"`

	// elsewhere is how many more addresses the interfaces have that only other
	// nodes announce, because of spec.bgp.nodeSelector of their ServiceGroups.
	// +optional
	Elsewhere int32 `json:"elsewhere,omitempty"`
}

// NodeInterface is an interface whose addresses are imported.
type NodeInterface struct {
	// name is the name of the interface. If no interface matches, it is the
	// configured name or pattern.
	// +required
	Name string `json:"name"`

	// exists says whether the interface exists.
	// +required
	Exists bool `json:"exists"`

	// operState is up or down.
	// +required
	OperState string `json:"operState"`
}

// ImportedAddress is an address whose network is announced.
type ImportedAddress struct {
	// address is the address with its mask.
	// +required
	Address string `json:"address"`

	// interface is the interface of the address.
	// +required
	Interface string `json:"interface"`

	// inRIB says whether its network is announced.
	// +required
	InRIB bool `json:"inRIB"`
}

// NodeRIB is what a node announces and what it learned.
type NodeRIB struct {
	// localRoutes are the first routes of the node itself, at most 5.
	// +listType=atomic
	// +optional
	LocalRoutes []RIBRoute `json:"localRoutes,omitempty"`

	// localRanges are the destinations of all routes of the node itself:
	// destinations that follow one another are one range, such as
	// "192.0.2.1-192.0.2.9". The list is absent if there are more than 32 ranges.
	// +listType=atomic
	// +optional
	LocalRanges []string `json:"localRanges,omitempty"`

	// localRouteCount is how many there are.
	// +required
	LocalRouteCount int32 `json:"localRouteCount"`

	// receivedRoutes are the first routes that neighbors announce, at most 5.
	// +listType=atomic
	// +optional
	ReceivedRoutes []RIBRoute `json:"receivedRoutes,omitempty"`

	// receivedRouteCount is how many there are.
	// +required
	ReceivedRouteCount int32 `json:"receivedRouteCount"`

	// truncated says that one of the lists is not complete.
	// +optional
	Truncated bool `json:"truncated,omitempty"`
}

// RIBRoute is a route that is announced or was learned.
type RIBRoute struct {
	// prefix is the destination of the route.
	// +required
	Prefix string `json:"prefix"`

	// nextHop is the next hop; "0.0.0.0" or "::" means the node itself.
	// +required
	NextHop string `json:"nextHop"`

	// fromPeer is the neighbor that announced it.
	// +optional
	FromPeer string `json:"fromPeer,omitempty"`

	// advertisedTo are the neighbors that it is announced to. PureLB does not
	// say: prefixesSent of the neighbors counts what each of them is told.
	// +listType=atomic
	// +optional
	AdvertisedTo []string `json:"advertisedTo,omitempty"`

	// weight is the number of ready endpoints on the node that the route announces
	// (spec.bgp.weightByEndpoints of the ServiceGroup).
	// +optional
	Weight int64 `json:"weight,omitempty"`

	// communities are its communities and large communities.
	// +listType=atomic
	// +optional
	Communities []string `json:"communities,omitempty"`
}

// NodeExport is what a node has put into its routing tables.
type NodeExport struct {
	// enabled says whether routes are exported.
	// +required
	Enabled bool `json:"enabled"`

	// protocol is the number that marks them in the tables.
	// +required
	Protocol int32 `json:"protocol"`

	// dampeningInterval is how many milliseconds changes are collected.
	// +optional
	DampeningInterval int32 `json:"dampeningInterval,omitempty"`

	// rules are the rules in use.
	// +listType=atomic
	// +optional
	Rules []NodeExportRule `json:"rules,omitempty"`

	// exportedRoutes are some of the routes, at most 5. Those that are not in
	// their table come first.
	// +listType=atomic
	// +optional
	ExportedRoutes []ExportedRoute `json:"exportedRoutes,omitempty"`

	// totalExported is how many there are.
	// +required
	TotalExported int32 `json:"totalExported"`

	// truncated says that exportedRoutes is not all of them.
	// +optional
	Truncated bool `json:"truncated,omitempty"`
}

// NodeExportRule is a rule in use.
type NodeExportRule struct {
	// name is its name.
	// +required
	Name string `json:"name"`

	// metric is the metric of its routes.
	// +required
	Metric int64 `json:"metric"`

	// tableID is the routing table of its routes.
	// +required
	TableID int64 `json:"tableID"`
}

// ExportedRoute is a route that should be in a routing table.
type ExportedRoute struct {
	// prefix is the destination of the route.
	// +required
	Prefix string `json:"prefix"`

	// table is the routing table.
	// +required
	Table string `json:"table"`

	// metric is its metric.
	// +required
	Metric int64 `json:"metric"`

	// installed says whether the route is in the table.
	// +required
	Installed bool `json:"installed"`

	// reason says why it is not.
	// +optional
	Reason string `json:"reason,omitempty"`
}

// NodeVRF is a VRF of a node. There is none: VRFs are not supported.
type NodeVRF struct {
	// name is its name.
	// +required
	Name string `json:"name"`

	// rd is its route distinguisher.
	// +required
	RD string `json:"rd"`

	// importedRouteCount is how many routes are in it.
	// +required
	ImportedRouteCount int32 `json:"importedRouteCount"`

	// exportedRouteCount is how many of them are in a routing table.
	// +required
	ExportedRouteCount int32 `json:"exportedRouteCount"`
}
