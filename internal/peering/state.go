// Package peering decides how this node speaks BGP: with whom, under which
// policies, and what it announces to them. It turns a BGPConfiguration and what
// is known of the node into one value, and tells what differs between two such
// values.
//
// It knows nothing of sockets, of the kernel, or of a BGP implementation.
package peering

import (
	"net/netip"
	"slices"
	"time"

	"purelb.io/purelb/internal/addr"
)

// State is how a node is to speak BGP. It is complete: what is not in it is not
// to be. Its slices are in a defined order, so that equal states are DeepEqual.
type State struct {
	Global Global
	// Peers are neighbours with whom this node has a session, or waits for one.
	// What a peer group gives them is merged into them.
	Peers []Peer
	// Groups are the templates of neighbours that come by themselves, and
	// Dynamic where they come from.
	Groups  []Group
	Dynamic []Dynamic
	// Sets are what conditions of Import and Export refer to.
	Sets []Set
	// Import and Export are walked from the top for every route and neighbour
	// until a statement gives a verdict; what none decides is accepted when
	// the chain's Default says so.
	Import, Export Chain
	VRFs           []VRF
}

// Global is what concerns the node as a whole. A change of ASN, RouterID, Port,
// Listen, Families, Device, Multipath, Confederation or Selection needs a new
// BGP server; the sessions begin anew then.
type Global struct {
	ASN      uint32
	RouterID netip.Addr // always IPv4
	// Port is where neighbours are listened for; -1: nowhere.
	Port     int
	Listen   []netip.Addr // empty: all
	Families []addr.Family
	// Device is the interface or VRF device that all sockets are bound to, or "".
	Device        string
	Multipath     bool
	Confederation *Confederation
	Selection     Selection
}

// Confederation is one of ASes that look like Identifier from outside (RFC 5065).
type Confederation struct {
	Identifier uint32
	Members    []uint32
}

// Selection changes how the best path is found.
type Selection struct {
	AlwaysCompareMED        bool
	AdvertiseInactiveRoutes bool
}

// Options are what a neighbour and a group of neighbours have in common.
type Options struct {
	ASN, LocalASN uint32
	Description   string
	// Password is the key of TCP-MD5 (RFC 2385), at most 80 bytes; "": none.
	Password        string
	Families        []Family
	Timers          Timers
	LocalAddress    netip.Addr // zero: the system's choice
	Device          string
	Passive         bool
	Multihop        uint8 // the TTL (RFC 4271 has none; 0: not multihop)
	TTLSecurity     uint8 // the least TTL to be accepted (RFC 5082; 0: off)
	GracefulRestart GracefulRestart
	RouteReflector  RouteReflector
	BFD             *BFD // RFC 5882
}

// Peer is one neighbour. It has an address, or for an unnumbered one the
// interface that it is reached by.
type Peer struct {
	Options
	Address   netip.Addr
	Interface string
	// LinkLocal is the address that sets of neighbours know an unnumbered one
	// by (see Resolved); with another it is none.
	LinkLocal netip.Addr
	AdminDown bool
	VRF       string
	Port      uint16 // 0: 179
	// Path is the field of the BGPConfiguration that it comes from, such as
	// spec.neighbors[2].
	Path string
	// NextHops are the next hops of the families that are not that of the
	// session. A family that is to be announced, is not the session's and is
	// not here is one that the neighbour takes with the session's own address
	// (RFC 8950, or an unnumbered session). They are here to be shown: what makes
	// them so, and Mute, are statements of Export.
	NextHops map[addr.Family]netip.Addr
	// Mute are families that are negotiated but not announced, because there is
	// no next hop for them.
	Mute []addr.Family
}

// Name is the neighbour's address, or "%" and its interface.
func (p Peer) Name() string {
	if p.Address.IsValid() {
		return p.Address.String()
	}
	return "%" + p.Interface
}

// Family is what is exchanged of one address family, always unicast.
type Family struct {
	Family addr.Family
	// AddPathsReceive and AddPathsSend: RFC 7911; Send 0 is off.
	AddPathsReceive bool
	AddPathsSend    uint8
	// MaxPrefixes ends the session when more are received; 0: no limit.
	// WarnPercent is when it is said in advance.
	MaxPrefixes uint32
	WarnPercent uint8
}

// Timers are those of a session. They are whole seconds.
type Timers struct {
	Hold, Keepalive, ConnectRetry, Advertisement time.Duration
}

// GracefulRestart is RFC 4724, for every family of the session.
type GracefulRestart struct {
	Enabled bool
	// Restart is how long the neighbour keeps our routes without a session,
	// Deferral how long we wait for the others after a restart before we
	// announce anything.
	Restart, Deferral time.Duration
	HelperOnly        bool
	// LongLived keeps routes longer still, as stale (RFC 9494); 0: off.
	LongLived time.Duration
}

// RouteReflector is RFC 4456.
type RouteReflector struct {
	Client    bool
	ClusterID netip.Addr
}

// BFD are the timers that we offer to a neighbour (RFC 5880).
type BFD struct {
	MinTransmit, MinReceive time.Duration
	Multiplier              uint8
}

// Group is the template of neighbours that are accepted without being named.
type Group struct {
	Options
	Name string
	Path string
}

// Dynamic accepts neighbours from Prefix by the template Group.
type Dynamic struct {
	Prefix netip.Prefix
	Group  string
	Path   string
}

// SetKind is what a Set has.
type SetKind string

// Kinds of sets.
const (
	PrefixSet         SetKind = "prefix"
	NeighborSet       SetKind = "neighbor"
	ASPathSet         SetKind = "as-path"
	CommunitySet      SetKind = "community"
	LargeCommunitySet SetKind = "large-community"
)

// Set is something to match with: the prefixes of one family, or texts (of
// neighbours: prefixes, and "%" with the interface of unnumbered ones, see
// Resolved; of AS paths and communities: values or regular expressions).
type Set struct {
	Kind     SetKind
	Name     string
	Family   addr.Family // of a PrefixSet
	Prefixes []PrefixRange
	List     []string
	Path     string
}

// PrefixRange matches prefixes inside Prefix of lengths from Min to Max.
type PrefixRange struct {
	Prefix   netip.Prefix
	Min, Max uint8
}

// Chain is a list of statements, and what becomes of the rest.
type Chain struct {
	Statements []Statement
	Default    Verdict
}

// Accepts says whether there is anything that c accepts.
func (c Chain) Accepts() bool {
	return c.Default == Accept || slices.ContainsFunc(c.Statements, func(s Statement) bool { return s.Then.Verdict == Accept })
}

// Verdict ends the walk through a chain, or does not.
type Verdict int

// Verdicts.
const (
	Continue Verdict = iota
	Accept
	Reject
)

// Statement applies to the routes and neighbours that all its conditions hold
// for. Its name is unique in a State.
type Statement struct {
	Name string
	If   Conditions
	Then Actions
	Path string
}

// Match says how many elements of a set must match.
type Match string

// Ways to match.
const (
	Any    Match = "any"
	All    Match = "all"
	Invert Match = "invert"
)

// SetRef names a set of the State.
type SetRef struct {
	Name  string
	Match Match
}

// Origin is where a route is from.
type Origin string

// Origins of routes.
const (
	Anywhere Origin = ""
	Local    Origin = "local"
	Internal Origin = "internal" // from an iBGP neighbour
	External Origin = "external" // from an eBGP neighbour
)

// Conditions of a statement; the zero value holds for everything.
type Conditions struct {
	Prefixes, Neighbors, ASPaths, Communities, LargeCommunities *SetRef
	Origin                                                      Origin
	Families                                                    []addr.Family
	// RPKI is "", "valid", "invalid" or "not-found".
	RPKI string
}

// Change is what is done to a list of communities.
type Change string

// Changes of lists.
const (
	Add     Change = "add"
	Remove  Change = "remove"
	Replace Change = "replace"
)

// Actions of a statement.
type Actions struct {
	Verdict          Verdict
	Communities      *CommunityChange
	LargeCommunities *CommunityChange
	MED              *MEDChange
	LocalPref        *uint32
	Prepend          *Prepend
	NextHop          netip.Addr // zero: as it is
}

// CommunityChange changes the communities of a route: texts such as 65000:1, or
// 65000:1:2 for large ones.
type CommunityChange struct {
	Change Change
	List   []string
}

// MEDChange sets the MED to Value, or adds Value to it.
type MEDChange struct {
	Modify bool
	Value  int64
}

// Prepend puts ASN in front of the AS path, Repeat times. ASN 0 is the last AS
// that is there.
type Prepend struct {
	ASN    uint32
	Repeat uint8
}

// VRF is a routing table of its own, with the extended communities of RFC 4364.
type VRF struct {
	Name               string
	RD                 string
	ImportRT, ExportRT []string
	Path               string
}

// Attributes are what a route says of itself beside where it leads.
type Attributes struct {
	// Communities are the values of RFC 1997, LargeCommunities the texts of
	// RFC 8092.
	Communities      []uint32
	LargeCommunities []string
	MED              *uint32
	LocalPref        *uint32
}

// Route is one that this node originates.
type Route struct {
	Prefix     netip.Prefix // masked
	VRF        string
	Attributes Attributes
}
