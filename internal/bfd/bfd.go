// Package bfd watches neighbours by Bidirectional Forwarding Detection: packets
// go both ways several times a second, and who hears none for a while knows that
// the path is gone (RFC 5880, over a single hop by RFC 5881, for IPv4 and IPv6).
//
// It knows sessions and what became of them. What the end of one means for a BGP
// neighbour (RFC 5882) it does not know. Echo, demand mode and authentication
// are not offered.
package bfd

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	codec "github.com/osrg/gobgp/v4/pkg/packet/bfd"
)

// Session is one that is wanted. Peer is its key.
type Session struct {
	// Peer is the neighbour. A link-local IPv6 address has the name of the
	// interface for a zone, or it is taken from Interface.
	Peer netip.Addr
	// Local, if valid, is the address that packets are sent from and must come
	// to.
	Local netip.Addr
	// Interface, if not "", is what packets must come in by.
	Interface string
	// MinTransmit is how often packets are sent at most, MinReceive how often
	// they are taken at most: the slower of an end's MinTransmit and the other
	// end's MinReceive counts.
	MinTransmit, MinReceive time.Duration
	// Multiplier is how many packets in a row may be missing until the
	// neighbour takes us for gone.
	Multiplier uint8
}

// The intervals that can be asked for. The upper end is that of the packet's
// field.
const (
	minInterval = 10 * time.Millisecond
	maxInterval = (1<<32 - 1) * time.Microsecond
)

// Validate tells what is wrong with the session.
func (s Session) Validate() error {
	peer, linkLocal := s.key(), s.Peer.Is6() && s.Peer.IsLinkLocalUnicast()
	switch {
	case !peer.IsValid() || peer.IsUnspecified() || peer.IsMulticast():
		return fmt.Errorf("%v is not the address of a neighbour", s.Peer)
	case linkLocal && peer.Zone() == "":
		return fmt.Errorf("%v says nothing without an interface", s.Peer)
	case !linkLocal && peer.Zone() != "":
		return fmt.Errorf("%v is not link-local, and cannot have a zone", s.Peer)
	case s.Interface != "" && peer.Zone() != "" && s.Interface != peer.Zone():
		return fmt.Errorf("%v is not on interface %s", s.Peer, s.Interface)
	case s.Local.IsValid() && s.Local.Unmap().Is4() != peer.Is4():
		return fmt.Errorf("%v and %v are of different families", s.Local, s.Peer)
	case s.MinTransmit < minInterval || s.MinTransmit > maxInterval:
		return fmt.Errorf("a packet every %v is not possible", s.MinTransmit)
	case s.MinReceive < minInterval || s.MinReceive > maxInterval:
		return fmt.Errorf("a packet every %v is not possible", s.MinReceive)
	case s.Multiplier == 0:
		return errors.New("the multiplier is at least 1")
	}
	return nil
}

// key is the peer's address, with a zone exactly when it is link-local.
func (s Session) key() netip.Addr {
	peer := s.Peer.Unmap()
	if peer.Is6() && peer.IsLinkLocalUnicast() && peer.Zone() == "" {
		peer = peer.WithZone(s.Interface)
	}
	return peer
}

// link is the interface that packets come in by, or "".
func (s Session) link() string {
	if s.Interface != "" {
		return s.Interface
	}
	return s.Peer.Zone()
}

// local is the address that packets are sent from, without a zone.
func (s Session) local() netip.Addr { return s.Local.Unmap().WithZone("") }

func (s Session) timers() timers {
	return timers{
		intervals:  intervals{s.MinTransmit.Truncate(time.Microsecond), s.MinReceive.Truncate(time.Microsecond)},
		multiplier: s.Multiplier,
	}
}

// State is that of a session, as RFC 5880 numbers it.
type State uint8

// States of a session.
const (
	AdminDown State = iota // an operator does not want it
	Down                   // the other end is not heard, or has not answered
	Init                   // the other end is heard, but does not hear us yet
	Up                     // both ends hear each other
)

func (s State) String() string {
	return [...]string{"AdminDown", "Down", "Init", "Up"}[s&3]
}

// Diagnostic is why a session went down last, as RFC 5880 numbers it.
type Diagnostic uint8

// The diagnostics that this end has itself.
const (
	noDiagnostic     = Diagnostic(codec.DiagnosticNoDiagnostic)
	timeExpired      = Diagnostic(codec.DiagnosticControlDetectionTimeExpired)
	neighborDown     = Diagnostic(codec.DiagnosticNeighborSignaledSessionDown)
	administratively = Diagnostic(codec.DiagnosticAdministrativelyDown)
)

func (d Diagnostic) String() string { return codec.DiagnosticType(d).String() }

// Status is what is known of a session.
type Status struct {
	Session
	// State is that of this end since Since, and Remote what the other end
	// last said of itself.
	State, Remote State
	Since         time.Time
	// Diagnostic is why this end went down last, and RemoteDiagnostic why the
	// other end did.
	Diagnostic, RemoteDiagnostic Diagnostic
	// Discriminator is the number of this end's session, and
	// RemoteDiscriminator that of the other end's; 0: not known.
	Discriminator, RemoteDiscriminator uint32
	// Transmit is how often packets are sent now, without jitter; 0: not at
	// all. Detection is after what silence the other end is gone; 0: nothing
	// is heard from it.
	Transmit, Detection time.Duration
	// Ups and Downs are how often the session came up, and went down from
	// there.
	Ups, Downs uint64
	// Sent and Received are packets; Refused are those that were addressed to
	// the session and not valid.
	Sent, Received, Refused uint64
	// LastError is why nothing can be sent or received at this time, or "".
	LastError string
}

// Event is a change of the state of a session.
type Event struct {
	// Peer is the key of the session: a link-local one has its zone.
	Peer     netip.Addr
	From, To State
	// RemoteAdminDown is set when the other end goes down because its operator
	// wants that. The path is as good as it was: RFC 5882, section 4.2.
	RemoteAdminDown bool
	// Diagnostic is why the session went down, and RemoteDiagnostic why the
	// other end was down already, if that is what Diagnostic says. They are
	// the zero value when it came up.
	Diagnostic, RemoteDiagnostic Diagnostic
	At                           time.Time
}

// Failed says whether the session went down because the path is broken.
//
// It is not when the other end's operator wants the session down. Nor is it when
// the other end is down because this one, as it says, was down first, which this
// one was not: FRR says that when it makes its session anew, as it does when BGP
// comes up and tells it the address to send from (FRR issue 17337). An end that
// misses our packets says that it does.
func (e Event) Failed() bool {
	if e.From != Up || e.To != Down || e.RemoteAdminDown {
		return false
	}
	told := e.Diagnostic == neighborDown
	return !told || e.RemoteDiagnostic != noDiagnostic && e.RemoteDiagnostic != neighborDown && e.RemoteDiagnostic != administratively
}
