package v1

// SessionOptions are options of the sessions with a neighbor, or with the
// neighbors of a peer group.
//
// +kubebuilder:validation:XValidation:rule="!has(self.ttlSecurity) || !has(self.ebgpMultihop) || !has(self.ebgpMultihop.enabled) || !self.ebgpMultihop.enabled || (has(self.ttlSecurity.enabled) && !self.ttlSecurity.enabled)",message="ttlSecurity and ebgpMultihop exclude each other: a neighbor is either on the same link or it is not"
type SessionOptions struct {
	// afiSafis are the address families to exchange. Default: those of
	// global.families.
	// +listType=atomic
	// +optional
	AFISAFIs []AFISAFI `json:"afiSafis,omitempty"`

	// applyPolicy names policies. Not supported: it has no effect, and the status
	// says so. Use spec.bgp of ServiceGroups.
	// +optional
	ApplyPolicy *Unread `json:"applyPolicy,omitempty"`

	// timers are the timers of the session.
	// +optional
	Timers *Timers `json:"timers,omitempty"`

	// transport says how the connection of the session is made.
	// +optional
	Transport *Transport `json:"transport,omitempty"`

	// gracefulRestart keeps routes while one side restarts (RFC 4724).
	// +optional
	GracefulRestart *GracefulRestart `json:"gracefulRestart,omitempty"`

	// routeReflector is not supported: nodes pass no routes on. It is reported if
	// routeReflectorClient is true.
	// +optional
	RouteReflector *RouteReflector `json:"routeReflector,omitempty"`

	// ebgpMultihop accepts a neighbor in another autonomous system that is not on
	// the same link. It excludes ttlSecurity.
	// +optional
	EBGPMultihop *EBGPMultihop `json:"ebgpMultihop,omitempty"`

	// ttlSecurity accepts only packets that cannot be from far away (RFC 5082).
	// The neighbor must use it too. It excludes ebgpMultihop.
	// +optional
	TTLSecurity *TTLSecurity `json:"ttlSecurity,omitempty"`

	// allowOwnAsn is not supported: routes with the node's own autonomous system in
	// their path are not accepted. It is reported if it is set.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	// +optional
	AllowOwnASN int32 `json:"allowOwnAsn,omitempty"`

	// bfd notices within a second that the neighbor, or the path to it, is gone
	// (RFC 5882). The neighbor must use it too. It is on the same link, unless BFD
	// is multihop.
	// +optional
	BFD *BFD `json:"bfd,omitempty"`
}

// AFISAFI is an address family, and how its routes are exchanged.
type AFISAFI struct {
	// family is ipv4-unicast or ipv6-unicast. Other families are not supported,
	// and are reported.
	// +required
	Family string `json:"family"`

	// enabled false leaves the family out. Default: true.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`

	// prefixLimit ends the session if the neighbor announces too many prefixes. The
	// default limit is 40000 prefixes.
	// +optional
	PrefixLimit *PrefixLimit `json:"prefixLimit,omitempty"`

	// addPaths is not supported (RFC 7911). It is reported if it is set.
	// +optional
	AddPaths *AddPaths `json:"addPaths,omitempty"`
}

// PrefixLimit ends the session if the neighbor announces too many prefixes. The
// session begins again after five minutes, or when the limit is changed. Routes of
// other nodes, which routers send back to the nodes, count too.
type PrefixLimit struct {
	// maxPrefixes is how many prefixes the neighbor may announce. 0 means no
	// limit; then a router that announces too many prefixes takes all memory.
	// +required
	MaxPrefixes int32 `json:"maxPrefixes"`

	// shutdownThresholdPct is a percentage of maxPrefixes, from 1 to 100. From
	// there on a warning is logged. Default (0): no warning.
	// +optional
	ShutdownThresholdPct int32 `json:"shutdownThresholdPct,omitempty"`
}

// AddPaths is not supported.
type AddPaths struct {
	// receive is not supported.
	// +optional
	Receive bool `json:"receive,omitempty"`

	// sendMax is not supported.
	// +optional
	SendMax int32 `json:"sendMax,omitempty"`
}

// Timers has the timers of a session.
type Timers struct {
	// config holds the timers.
	// +optional
	Config TimersConfig `json:"config,omitzero"`
}

// TimersConfig are the timers of a session, in seconds; 0 is the default.
type TimersConfig struct {
	// connectRetry is the pause before the node connects again to a neighbor that
	// did not answer, 1 to 65535. Default: 2.
	// +optional
	ConnectRetry int64 `json:"connectRetry,omitempty"`

	// holdTime is how long a session lasts without a sign of life, 3 to 65535.
	// The lower value of both sides is used. Default: 90.
	// +optional
	HoldTime int64 `json:"holdTime,omitempty"`

	// keepaliveInterval is the interval of keepalives; it must be less than
	// holdTime. Default: a third of holdTime.
	// +optional
	KeepaliveInterval int64 `json:"keepaliveInterval,omitempty"`

	// minimumAdvertisementInterval is not supported: changes are announced at
	// once. It is reported if it is set.
	// +optional
	MinimumAdvertisementInterval int64 `json:"minimumAdvertisementInterval,omitempty"`
}

// Transport says how the connection of a session is made.
type Transport struct {
	// localAddress is the node's address for the session. It differs from node to
	// node, so use it with a nodeSelector, or write "${node.annotations['key']}" or
	// "${node.labels['key']}" for the address in an annotation or a label of the
	// node. A node on which there is no such address does not have the neighbor. It
	// must be of the address family of the session, which is IPv6 for a
	// neighborInterface; otherwise the neighbor is left out. Default: the address
	// from the routing table.
	// +optional
	LocalAddress string `json:"localAddress,omitempty"`

	// passiveMode waits for the neighbor to connect. Default: false.
	// +optional
	PassiveMode *bool `json:"passiveMode,omitempty"`

	// bindInterface is the interface that the connection must use. VRF devices are
	// not supported. Default: global.bindToDevice, or any.
	// +optional
	BindInterface string `json:"bindInterface,omitempty"`

	// remotePort is the TCP port of the neighbor. Default: 179.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	RemotePort int32 `json:"remotePort,omitempty"`
}

// GracefulRestart keeps routes while one side restarts.
type GracefulRestart struct {
	// enabled switches it on, for every address family. Default: false; the other
	// fields then have no effect.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`

	// restartTime is how many seconds the neighbor keeps the node's routes while
	// the speaker restarts, 1 to 4095. Default: 120.
	// +optional
	RestartTime int32 `json:"restartTime,omitempty"`

	// helperOnly keeps the neighbor's routes while it restarts, but does not ask
	// the neighbor to do the same. Default: false.
	// +optional
	HelperOnly *bool `json:"helperOnly,omitempty"`

	// deferralTime is how many seconds a restarted speaker waits for all
	// neighbors before it announces anything to any of them. A router that is
	// down costs the other routers this time. Default: 5.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	// +optional
	DeferralTime int32 `json:"deferralTime,omitempty"`

	// longLivedRestartTime is not supported (RFC 9494). It is reported if it is
	// set; use a longer restartTime.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=16777215
	// +optional
	LongLivedRestartTime int32 `json:"longLivedRestartTime,omitempty"`
}

// RouteReflector is not supported.
type RouteReflector struct {
	// routeReflectorClient is not supported.
	// +optional
	RouteReflectorClient *bool `json:"routeReflectorClient,omitempty"`

	// routeReflectorClusterId is not supported.
	// +optional
	RouteReflectorClusterID string `json:"routeReflectorClusterId,omitempty"`
}

// EBGPMultihop accepts a neighbor that is not on the same link.
type EBGPMultihop struct {
	// enabled switches it on. Default: false.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`

	// multihopTtl is the largest distance of the neighbor, as the TTL of packets,
	// 1 to 255. Default (0): 255.
	// +optional
	MultihopTTL int32 `json:"multihopTtl,omitempty"`
}

// TTLSecurity accepts only packets that cannot be from far away.
type TTLSecurity struct {
	// enabled switches it on. Default: true.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`

	// ttlMin is the lowest TTL of packets that are accepted: 255 is from the same
	// link, 254 from one router further. Default: 255.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=255
	// +optional
	TTLMin int32 `json:"ttlMin,omitempty"`
}

// BFD has the timers that the node offers the neighbor. In each direction the
// slower one is used: the sender's transmit interval or the receiver's receive
// interval.
// +kubebuilder:validation:XValidation:rule="!has(self.minimumTtl) || !has(self.multihop) || self.multihop",message="minimumTtl is for multihop: remove it, or set multihop to true"
type BFD struct {
	// enabled switches it on. Default: true.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`

	// minReceiveIntervalMilliseconds is how fast the neighbor may send.
	// Default: 300.
	// +kubebuilder:validation:Minimum=50
	// +kubebuilder:validation:Maximum=60000
	// +optional
	MinReceiveIntervalMilliseconds int32 `json:"minReceiveIntervalMilliseconds,omitempty"`

	// minTransmitIntervalMilliseconds is how fast the node sends. A container
	// with a CPU limit may be paused for tens of milliseconds, so set no CPU
	// limit if the value is below 300. Default: 300.
	// +kubebuilder:validation:Minimum=50
	// +kubebuilder:validation:Maximum=60000
	// +optional
	MinTransmitIntervalMilliseconds int32 `json:"minTransmitIntervalMilliseconds,omitempty"`

	// detectionMultiplier is how many consecutive packets may be missing.
	// Default: 3.
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=255
	// +optional
	DetectionMultiplier int32 `json:"detectionMultiplier,omitempty"`

	// multihop is for a neighbor that is not on the same link (RFC 5883): packets
	// go to UDP port 4784. The neighbor must do the same. Set it for a neighbor in
	// the node's own AS that is behind a router. Default: true if ebgpMultihop is
	// enabled with a multihopTtl above 1, otherwise false.
	// +optional
	Multihop *bool `json:"multihop,omitempty"`

	// minimumTtl is, with multihop, the lowest TTL or hop limit of packets that
	// the node accepts. Neighbors send them with 255, and each router on the path
	// takes 1 off. Without multihop only 255 is accepted. Default: what
	// ebgpMultihop.multihopTtl allows, which is 256 minus that value, otherwise
	// 254, which allows one router.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=255
	// +optional
	MinimumTTL int32 `json:"minimumTtl,omitempty"`

	// passive waits for the first packet of the neighbor instead of sending one.
	// If both sides are passive, BFD never comes up. Default: false.
	// +optional
	Passive *bool `json:"passive,omitempty"`
}
