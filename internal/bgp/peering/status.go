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

// NeighborStatus is the state of a neighbor.
type NeighborStatus struct {
	// Address is zero as long as the address of an unnumbered neighbor is unknown. Interface
	// is set only for unnumbered neighbors.
	Address   netip.Addr
	Interface string
	// PeerASN is 0 as long as the number of an external neighbor is unknown.
	LocalASN, PeerASN uint32
	State             string
	AdminDown         bool
	// Since is when State last changed. UpSince is when the session came up, if it is up.
	Since, UpSince time.Time
	// Complete says that the neighbor has sent all of its routes since the session came up:
	// End-of-RIB for each family (RFC 4724).
	Complete bool
	// Opened says that the neighbor has sent its capabilities, in this session or an earlier one.
	Opened bool
	// ExtendedNextHop says that the neighbor takes IPv4 routes with IPv6 next hops (RFC 8950).
	ExtendedNextHop bool
	// GracefulRestart says that the neighbor can keep routes while we restart (RFC 4724).
	GracefulRestart bool
	// Agreed are the families of the session, to which both sides have agreed.
	Agreed []addr.Family
	// Sent and Received are the numbers of prefixes that we announce and that we received.
	Sent, Received map[addr.Family]uint32
	// OverLimit says that the server ended the session because of too many prefixes.
	OverLimit   bool
	Description string
	// LastError says why the session ended, or did not come up.
	LastError string
	// Flaps counts how often the session went down.
	Flaps uint64
}

// Name returns the name of the Peer.
func (n NeighborStatus) Name() string { return Peer{Address: n.Address, Interface: n.Interface}.Name() }

// LearnedRoute is a route that a neighbor announces.
type LearnedRoute struct {
	Prefix           netip.Prefix
	NextHop          netip.Addr
	From             netip.Addr
	Communities      []uint32
	LargeCommunities []string
}
