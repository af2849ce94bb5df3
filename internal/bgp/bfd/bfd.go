// Package bfd watches neighbors by Bidirectional Forwarding Detection. Both ends send
// packets several times a second, and an end that receives none for a while knows that the
// path is broken (RFC 5880). The neighbor is on the same link (RFC 5881) or farther away (RFC
// 5883), with IPv4 or IPv6.
//
// It knows sessions and their states. It does not know what the end of a session means for
// a BGP neighbor (RFC 5882). It does not implement Echo and authentication. It goes on sending packets to a
// neighbor in demand mode, which FRR and BIRD never ask for.
package bfd

import (
	"fmt"
	"net/netip"
	"time"

	codec "github.com/osrg/gobgp/v4/pkg/packet/bfd"
)

// Session is a wanted session. Peer is its key.
type Session struct {
	// Peer is the address of the neighbor. A link-local IPv6 address needs the name of the
	// interface as its zone, or in Interface.
	Peer netip.Addr
	// Local, if valid, is the source address of sent packets, and the required destination
	// address of received packets.
	Local netip.Addr
	// Interface, if not "", is the interface through which packets must arrive.
	Interface string
	// MinTransmit is the shortest interval at which this end sends packets. MinReceive is
	// the shortest interval at which it accepts them. The longer one of an end's
	// MinTransmit and the other end's MinReceive applies.
	MinTransmit, MinReceive time.Duration
	// Multiplier is the number of packets in a row that may be missing before the neighbor
	// declares this end down.
	Multiplier uint8
	// Multihop means that there may be routers on the path to the neighbor (RFC 5883).
	// MinTTL is then the lowest TTL or hop limit of accepted packets, which neighbors send
	// with 255. Without Multihop only 255 is accepted.
	Multihop bool
	MinTTL   uint8
	// Passive means that this end sends nothing before it hears the other end (RFC 5880,
	// section 6.1).
	Passive bool
}

// check reports what is wrong with a session that a configuration can ask for.
func (s Session) check() error {
	peer := s.key()
	switch {
	case s.Interface != "" && peer.Zone() != "" && s.Interface != peer.Zone():
		return fmt.Errorf("%v is not on interface %s", s.Peer, s.Interface)
	case s.Multihop && peer.IsLinkLocalUnicast() && peer.Is6():
		return fmt.Errorf("%v is link-local, and no router is on the path to it", s.Peer)
	}
	return nil
}

// key returns the peer's address. It has a zone exactly if it is link-local.
func (s Session) key() netip.Addr {
	peer := s.Peer.Unmap()
	if peer.Is6() && peer.IsLinkLocalUnicast() && peer.Zone() == "" {
		peer = peer.WithZone(s.Interface)
	}
	return peer
}

// link returns the interface through which packets must arrive, or "".
func (s Session) link() string {
	if s.Interface != "" {
		return s.Interface
	}
	return s.Peer.Zone()
}

// minTTL returns the lowest TTL or hop limit of accepted packets. No sender farther away can
// reach this node with 255 (RFC 5881, section 5).
func (s Session) minTTL() int {
	if s.Multihop {
		return int(s.MinTTL)
	}
	return hops
}

// ear returns the index in the engine's ears.
func (s Session) ear() int {
	i := 0
	if !s.key().Is4() {
		i++
	}
	if s.Multihop {
		i += 2
	}
	return i
}

// local returns the source address of sent packets, without a zone.
func (s Session) local() netip.Addr { return s.Local.Unmap().WithZone("") }

func (s Session) timers() timers {
	return timers{
		intervals:  intervals{s.MinTransmit.Truncate(time.Microsecond), s.MinReceive.Truncate(time.Microsecond)},
		multiplier: s.Multiplier,
	}
}

// State is the state of a session, numbered as in RFC 5880.
type State uint8

// States of a session.
const (
	AdminDown State = iota // an operator has disabled the session
	Down                   // this end does not hear the other end, or the other end has not answered
	Init                   // this end hears the other end, which does not hear it yet
	Up                     // both ends hear each other
)

func (s State) String() string {
	return [...]string{"AdminDown", "Down", "Init", "Up"}[s&3]
}

// Diagnostic is why a session last went down, numbered as in RFC 5880.
type Diagnostic uint8

// The diagnostics that this end uses.
const (
	noDiagnostic     = Diagnostic(codec.DiagnosticNoDiagnostic)
	timeExpired      = Diagnostic(codec.DiagnosticControlDetectionTimeExpired)
	neighborDown     = Diagnostic(codec.DiagnosticNeighborSignaledSessionDown)
	administratively = Diagnostic(codec.DiagnosticAdministrativelyDown)
)

func (d Diagnostic) String() string { return codec.DiagnosticType(d).String() }

// Status is the known state of a session.
type Status struct {
	Session
	// State is the state of this end since Since. Remote is the state that the other end
	// last reported.
	State, Remote State
	Since         time.Time
	// Diagnostic is why this end last went down. RemoteDiagnostic is why the other end did.
	Diagnostic, RemoteDiagnostic Diagnostic
	// Discriminator is the number of this end's session. RemoteDiscriminator is that of the
	// other end, or 0 if it is not known.
	Discriminator, RemoteDiscriminator uint32
	// Transmit is the current interval between sent packets, without jitter; 0 means that
	// this end sends none. Detection is the length of silence after which the other end is
	// down; 0 means that this end hears nothing from it.
	Transmit, Detection time.Duration
	// Ups is how often the session came up. Downs is how often it left Up.
	Ups, Downs uint64
	// Sent, Received and Refused count packets. Refused packets were addressed to the
	// session and invalid.
	Sent, Received, Refused uint64
	// LastError is why this end currently cannot send or receive, or "".
	LastError string
}

// Event is a change of the state of a session.
type Event struct {
	// Peer is the key of the session. A link-local address has its zone.
	Peer     netip.Addr
	From, To State
	// RemoteAdminDown means that the other end goes down because its operator disabled the
	// session. The path still works: RFC 5882, section 4.2.
	RemoteAdminDown bool
	// Diagnostic is why the session went down. If that is because the other end was down
	// already, RemoteDiagnostic is why the other end was down. Both are zero when the
	// session came up.
	Diagnostic, RemoteDiagnostic Diagnostic
	At                           time.Time
}

// Failed reports whether the session went down because the path is broken.
//
// It returns false if the other end's operator disabled the session. It also returns false
// if the other end is down and reports that this end was down first, although this end was
// not. FRR reports that when it creates its session anew. It does so when BGP comes up and
// provides the source address (FRR issue 17337). An end that misses our packets reports an
// expired detection time instead.
func (e Event) Failed() bool {
	if e.From != Up || e.To != Down || e.RemoteAdminDown {
		return false
	}
	told := e.Diagnostic == neighborDown
	return !told || e.RemoteDiagnostic != noDiagnostic && e.RemoteDiagnostic != neighborDown && e.RemoteDiagnostic != administratively
}
