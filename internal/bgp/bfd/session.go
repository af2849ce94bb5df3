package bfd

import (
	"net/netip"
	"time"
)

// session is a session of the engine: a machine and its connection to the network.
type session struct {
	*machine
	key   netip.Addr
	asked Session
	mouth mouth // nil while it is not open

	since     time.Time
	ups       uint64
	downs     uint64
	taken     uint64
	refused   uint64
	said      uint64
	lastError string

	// leaving is when to drop a session that is no longer wanted. It is zero while the
	// session is wanted.
	leaving time.Time
}

// fits reports whether a packet has the port, the addresses, the interface and the distance
// that the session requires.
func (s *session) fits(a arrival) bool {
	local, link := s.asked.local(), s.asked.link()
	return a.multihop == s.asked.Multihop && a.hops >= s.asked.minTTL() && a.key() == s.key &&
		(link == "" || link == a.link) &&
		(!local.IsValid() || local == a.to.Unmap().WithZone("")) && !a.to.IsMulticast()
}

func (s *session) status() Status {
	st := Status{
		Session: s.asked,
		State:   s.state, Remote: s.remoteState, Since: s.since,
		Diagnostic: s.diagnostic, RemoteDiagnostic: s.remoteDiagnostic,
		Discriminator: s.discriminator, RemoteDiscriminator: s.remote,
		Detection: s.detection(),
		Ups:       s.ups, Downs: s.downs,
		Sent: s.said, Received: s.taken, Refused: s.refused,
		LastError: s.lastError,
	}
	st.Transmit, _ = s.interval()
	return st
}

// at returns when the engine has to look after the session, or zero for never.
func (s *session) at() time.Time {
	at := s.due()
	if !s.leaving.IsZero() && (at.IsZero() || s.leaving.Before(at)) {
		return s.leaving
	}
	return at
}
