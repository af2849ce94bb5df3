package v2

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// RouteAttributes are BGP attributes of the routes to the addresses of a group.
// They affect addresses that the BGP speaker announces: those on the dummy
// interface.
//
// The annotations of a Service take precedence over each of them. If one route
// covers addresses of several Services, because it is as wide as the subnet, it
// has the attributes of the Service with the lowest address that sets any.
//
// Without advertisements, these fields are one advertisement to all peers.
type RouteAttributes struct {
	// communities are BGP communities (RFC 1997), such as 65000:100, by which
	// routers can recognize the routes of this group. Names are well-known, such as
	// no-export; nodes leave an unknown name out and report it. Default: none.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	Communities []Community `json:"communities,omitempty"`

	// largeCommunities are large communities, with three numbers of 32 bits (RFC
	// 8092), such as 4200000000:1:100. Default: none.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	LargeCommunities []LargeCommunity `json:"largeCommunities,omitempty"`

	// med is the multi-exit discriminator: of two paths into the same neighboring
	// AS, routers take the one with the lower number. Default: none, which most
	// routers treat as 0.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4294967295
	// +optional
	MED *int64 `json:"med,omitempty"`

	// localPreference is announced only to neighbors of the same AS: they prefer
	// the route with the higher number. Default: 100.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4294967295
	// +optional
	LocalPreference *int64 `json:"localPreference,omitempty"`

	// asPathPrepend puts the AS number of the nodes in front of the AS path so many
	// times more, so that routers prefer other paths. It has no effect on neighbors
	// of the same AS. Default: 0.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	// +optional
	ASPathPrepend int32 `json:"asPathPrepend,omitempty"`

	// weightByEndpoints announces with each route how many ready endpoints the node
	// has (RFC 10005), so that routers send a node with three endpoints three times
	// as many connections as a node with one. It is for Services with
	// externalTrafficPolicy Local in pools whose routes are single addresses
	// (aggregation /32 and /128). Routers have to be configured to obey it.
	// Default: false, all nodes with an endpoint are equal.
	// +optional
	WeightByEndpoints bool `json:"weightByEndpoints,omitempty"`

	// nodeSelector selects, by their labels, the nodes that announce the addresses
	// of the group. The others have the addresses too, but do not announce them. A
	// route that also covers addresses of other groups is announced where one of
	// the groups is. It is for groups with pools, not for groups whose addresses an
	// IPAM system manages. Default: all nodes.
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn'] ? has(e.values) && size(e.values) > 0 : e.operator in ['Exists', 'DoesNotExist'] && (!has(e.values) || size(e.values) == 0))",message="matchExpressions must have the operator In or NotIn with values, or Exists or DoesNotExist without values"
	// +optional
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`

	// peers are the only neighbors to which nodes announce the addresses of the
	// group: by the address of the neighbor, by the interface of an unnumbered
	// neighbor, or by the name of a peer group. Neighbors that the list does not
	// name get none of these routes. A route that also covers addresses of other
	// groups is announced to the neighbors that all of these groups allow. A name
	// that no neighbor has is reported. Default: all neighbors.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +listType=set
	// +optional
	Peers []Peer `json:"peers,omitempty"`

	// advertisements say what differs by neighbor or by node. A neighbor gets a
	// route from a node if at least one entry names the neighbor and selects the
	// node. If several do, the route has the communities of all of them, and each
	// number is that of the first entry that sets it. What none of them sets is as
	// in the fields beside this list. An entry without peers or nodeSelector has
	// those beside this list. Default: one entry that sets nothing.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	Advertisements []Advertisement `json:"advertisements,omitempty"`
}

// Advertisement says how the addresses of a group are announced to some neighbors,
// by some nodes.
type Advertisement struct {
	// peers are the neighbors that get the routes, as in spec.bgp.peers.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +listType=set
	// +optional
	Peers []Peer `json:"peers,omitempty"`

	// nodeSelector selects the nodes that announce the routes, by their labels. A malformed one selects no node, and is reported.
	// +optional
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`

	// aggregation is the mask of the IPv4 routes, such as /24. The neighbors get
	// one route for all addresses of such a network, as long as a node has one of
	// them. Routers then send packets for its other addresses to the nodes too.
	// Entries with different masks are different routes: each neighbor gets the
	// routes of the entries that name it. Default: the aggregation of the pool.
	// +optional
	Aggregation AggregationV4 `json:"aggregation,omitempty"`

	// aggregationV6 is the mask of the IPv6 routes, such as /64. Default: the
	// aggregation of the pool.
	// +optional
	AggregationV6 AggregationV6 `json:"aggregationV6,omitempty"`

	// communities replace those of the group.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	Communities []Community `json:"communities,omitempty"`

	// largeCommunities replace those of the group.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	LargeCommunities []LargeCommunity `json:"largeCommunities,omitempty"`

	// med replaces that of the group.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4294967295
	// +optional
	MED *int64 `json:"med,omitempty"`

	// localPreference replaces that of the group. 0 is possible only there.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4294967295
	// +optional
	LocalPreference *int64 `json:"localPreference,omitempty"`

	// asPathPrepend replaces that of the group.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	// +optional
	ASPathPrepend *int32 `json:"asPathPrepend,omitempty"`
}

// AggregationV4 is a mask from /8 to /32.
//
// +kubebuilder:validation:Pattern=`^/([89]|[12][0-9]|3[0-2])$`
type AggregationV4 string

// AggregationV6 is a mask from /8 to /128.
//
// +kubebuilder:validation:Pattern=`^/([89]|[1-9][0-9]|1[01][0-9]|12[0-8])$`
type AggregationV6 string

// Peer names a neighbor of BGPConfigurations: by its address, its interface or its
// peer group.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=253
type Peer string

// Community is two numbers of 16 bits, or the name of a community.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z][-a-z0-9]*$') || self.matches('^[0-9]{1,5}:[0-9]{1,5}$') && self.split(':').all(number, int(number) <= 65535)",message="communities must hold two numbers of 0 to 65535 each, such as 65000:100, or names; for an AS above 65535 use largeCommunities"
type Community string

// LargeCommunity is three numbers of 32 bits, or the name of a large community.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z][-a-z0-9]*$') || self.matches('^[0-9]{1,10}:[0-9]{1,10}:[0-9]{1,10}$') && self.split(':').all(number, int(number) <= 4294967295)",message="largeCommunities must hold three numbers of 0 to 4294967295 each, such as 4200000000:1:100, or names"
type LargeCommunity string
