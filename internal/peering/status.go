package peering

import (
	"net/netip"
	"time"

	"purelb.io/purelb/internal/addr"
)

// States of a session.
const (
	Idle        = "Idle"
	Connect     = "Connect"
	Active      = "Active"
	OpenSent    = "OpenSent"
	OpenConfirm = "OpenConfirm"
	Established = "Established"
)

// NeighborStatus is what became of a neighbour.
type NeighborStatus struct {
	// Address is zero as long as that of an unnumbered neighbour is not known,
	// and Interface is set of unnumbered ones only.
	Address   netip.Addr
	Interface string
	// Dynamic is a neighbour that came by itself.
	Dynamic           bool
	LocalASN, PeerASN uint32
	State             string
	AdminDown         bool
	// Since is when State became what it is, UpSince when the session came up,
	// if it is up.
	Since, UpSince time.Time
	// Complete says that it has sent all of its routes since the session came up: the
	// end of the routes of each family (End-of-RIB, RFC 4724).
	Complete bool
	// ExtendedNextHop says that it takes IPv4 routes with IPv6 next hops (RFC 8950).
	ExtendedNextHop bool
	// GracefulRestart says that it can keep routes while we restart (RFC 4724).
	GracefulRestart bool
	// Sent and Received are how many prefixes are announced and were learned.
	Sent, Received map[addr.Family]uint32
	// Accepted leaves out of Received what was sent by nodes of our own AS and comes
	// back: routers do that unless they are told not to.
	Accepted map[addr.Family]uint32
	// OverLimit says that the server ended the session because there is no room.
	OverLimit   bool
	Description string
	// LastError is why the session ended, or did not come up.
	LastError string
	// Flaps is how often the session went down.
	Flaps uint64
}

// Name is that of the Peer.
func (n NeighborStatus) Name() string {
	if n.Interface != "" {
		return Peer{Interface: n.Interface}.Name()
	}
	return Peer{Address: n.Address}.Name()
}

// LearnedRoute is a route that a neighbour announces.
type LearnedRoute struct {
	Prefix           netip.Prefix
	NextHop          netip.Addr
	From             netip.Addr
	Communities      []uint32
	LargeCommunities []string
	// Internal is one from a neighbour in our own AS.
	Internal bool
	VRF      string
}

// Key tells the route from others; several equal paths have the same.
func (r LearnedRoute) Key() RouteKey { return RouteKey{r.Prefix, r.VRF} }
