// Package peering decides how this node speaks BGP: its neighbors, its policies and the
// routes that it announces. It turns a BGPConfiguration and the facts of the node into one
// value, and computes the difference between two such values.
//
// It knows nothing of sockets, of the kernel, or of a BGP implementation.
package peering

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"purelb.io/purelb/internal/addr"
)

// State is how a node must speak BGP. It is complete: a part that is not in it must not
// exist. Its slices are in a defined order, so that equal states are DeepEqual.
type State struct {
	Global Global
	// Peers are the neighbors with which this node has a session, or waits for one. The
	// options of a peer group are merged into them.
	Peers []Peer
	// Learns says that the node takes routes from its neighbors, but for those in Own. Only nodes of this
	// cluster may announce these.
	Learns bool
	Own    []PrefixRange
	// Routes are the routes that this node originates. With nil, they stay as they are. Routes
	// that contain an address in Waiting, which is sorted, stay too: the policies
	// of the neighbors do not have their groups yet.
	Routes  []Route
	Waiting []netip.Addr
}

// Global holds the options of the node as a whole. A change of ASN, RouterID, Port, Listen,
// Families or Device needs a new BGP server, and all sessions start again.
type Global struct {
	ASN      uint32
	RouterID netip.Addr // always IPv4
	// Port is the port to listen at. -1 means: do not listen.
	Port     int
	Listen   []netip.Addr // empty: all
	Families []addr.Family
	// Device is the interface or VRF device that all sockets are bound to, or "".
	Device string
}

// Options are the options of a session.
type Options struct {
	// ASN is 0 if External is true. The neighbor may then be in any AS except for LocalASN.
	ASN, LocalASN uint32
	External      bool
	Description   string
	// Password is the key of TCP-MD5 (RFC 2385), at most 80 bytes. "" means: none.
	Password        string
	Families        []Family
	Timers          Timers
	LocalAddress    netip.Addr // zero: the kernel chooses
	Device          string
	Passive         bool
	Multihop        uint8 // the TTL; 0: not multihop
	TTLSecurity     uint8 // the lowest TTL to accept (RFC 5082; 0: off)
	GracefulRestart GracefulRestart
	BFD             *BFD // RFC 5882
}

// Peer is one neighbor. An unnumbered one has an interface, and an address after Resolved.
type Peer struct {
	Options
	Address   netip.Addr
	Interface string
	AdminDown bool
	Port      uint16 // 0: 179
	// Path is the neighbor's field in the BGPConfiguration, such as spec.neighbors[2].
	Path string
	Policy
}

// Policy says which routes of this node a neighbor gets, and with which attributes. It gets no route that the
// node has learned.
type Policy struct {
	// NextHops holds the next hops of the families that the session does not use. If an announced
	// family is missing here and is not the family of the session, the neighbor accepts its routes
	// with the session's own address (RFC 8950, or an unnumbered session).
	NextHops map[addr.Family]netip.Addr
	// Mute are families that are negotiated but not announced, because they have no next hop.
	Mute []addr.Family
	// Groups are the names of restrictions that name the neighbor, sorted. The neighbor gets no route with
	// the mark of another restriction.
	Groups []string
	// Overrides are attributes of routes for this neighbor, by their marks.
	Overrides map[string]Override
}

// Override replaces attributes of a route, but for those that are not set in it.
type Override struct {
	Communities      []uint32
	LargeCommunities []string
	MED, LocalPref   *uint32
	// Prepend is how often the AS of this end of the session is added at the front of the AS path.
	Prepend uint8
}

// Name returns the neighbor's address, or "%" and its interface.
func (p Peer) Name() string {
	if p.Interface != "" {
		return "%" + p.Interface
	}
	return p.Address.String()
}

// Family holds the options of one address family of a session. It is always unicast.
type Family struct {
	Family addr.Family
	// MaxPrefixes is the number of prefixes above which the session ends; 0 means no limit. Above
	// WarnPercent percent of MaxPrefixes there is a warning.
	MaxPrefixes uint32
	WarnPercent uint8
}

// Timers are the timers of a session, in whole seconds.
type Timers struct {
	Hold, Keepalive, ConnectRetry time.Duration
}

// GracefulRestart is RFC 4724, for every family of the session.
type GracefulRestart struct {
	Enabled bool
	// Restart is how long the neighbor keeps our routes without a session. Deferral is how
	// long we wait for the other neighbors after a restart before we announce routes.
	Restart, Deferral time.Duration
	HelperOnly        bool
}

// BFD holds the timers that we offer to a neighbor (RFC 5880).
type BFD struct {
	MinTransmit, MinReceive time.Duration
	Multiplier              uint8
	// MinTTL is the lowest TTL of packets from a neighbor that is not on the same link (RFC
	// 5883). 0 means that the neighbor is on the same link.
	MinTTL uint8
	// Passive means that the neighbor starts the session.
	Passive bool
}

// PrefixRange matches prefixes inside Prefix with lengths from Min to Max.
type PrefixRange struct {
	Prefix   netip.Prefix
	Min, Max uint8
}

// Compare orders ranges by their prefixes.
func (r PrefixRange) Compare(o PrefixRange) int {
	return cmp.Or(r.Prefix.Compare(o.Prefix), cmp.Compare(r.Min, o.Min), cmp.Compare(r.Max, o.Max))
}

// Exactly returns the range of p alone.
func Exactly(p netip.Prefix) PrefixRange {
	return PrefixRange{Prefix: p, Min: uint8(p.Bits()), Max: uint8(p.Bits())}
}

// covers reports whether r matches p.
func (r PrefixRange) covers(p netip.Prefix) bool {
	bits := uint8(p.Bits())
	return r.Prefix.Bits() <= p.Bits() && r.Prefix.Contains(p.Addr()) && r.Min <= bits && bits <= r.Max
}

// Coverage finds out whether ranges match a prefix. It finds a range of one prefix in constant
// time, because each address of an IPAM system causes such a range.
type Coverage struct {
	exact map[netip.Prefix]bool
	wide  []PrefixRange
}

// CoverageOf returns the Coverage of ranges.
func CoverageOf(ranges []PrefixRange) Coverage {
	c := Coverage{exact: map[netip.Prefix]bool{}}
	for _, r := range ranges {
		if r == Exactly(r.Prefix) {
			c.exact[r.Prefix] = true
		} else {
			c.wide = append(c.wide, r)
		}
	}
	return c
}

// Has reports whether one of the ranges matches p.
func (c Coverage) Has(p netip.Prefix) bool {
	return c.exact[p] || slices.ContainsFunc(c.wide, func(r PrefixRange) bool { return r.covers(p) })
}

// Attributes are the attributes of a route beside its prefix.
type Attributes struct {
	// Communities are values of RFC 1997, and LargeCommunities texts of RFC 8092.
	Communities      []uint32
	LargeCommunities []string
	MED              *uint32
	LocalPref        *uint32
	// Weight is the number of ready endpoints behind the route. Routers that use several paths
	// divide connections in proportion to it (RFC 10005). 0 means no weight.
	Weight uint32
	// Marks are large communities that a route has inside of this node only. Neighbors get the route
	// without them, by what their Policy says about them.
	Marks []string `json:",omitempty"`
	// Advertised are the routes by which an address is announced. Marks then holds the marks of all
	// of them. None means one route, with Marks.
	Advertised []Advertised `json:",omitempty"`
	// Profile is the mark of the advertisements that set further attributes of a route.
	Profile string `json:",omitempty"`
}

// Advertised is one of the routes by which an address is announced.
type Advertised struct {
	// Bits is the length of the prefix. 0 means the mask of the address on its interface.
	Bits int `json:",omitempty"`
	// Marks and Profile are those of the route.
	Marks   []string `json:",omitempty"`
	Profile string   `json:",omitempty"`
}

// route returns the route of an address with these attributes.
func (a Advertised) route(address netip.Prefix, of Attributes) Route {
	if a.Bits > 0 {
		address = netip.PrefixFrom(address.Addr(), a.Bits)
	}
	of.Marks, of.Profile, of.Advertised = a.Marks, a.Profile, nil
	return Route{Prefix: address.Masked(), Attributes: of}
}

// Route is a route that this node originates.
type Route struct {
	Prefix     netip.Prefix // masked
	Attributes Attributes
}
