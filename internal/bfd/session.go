package bfd

import (
	"net/netip"
	"time"
)

// session is one of the engine's: a machine, and its way to the wire.
type session struct {
	*machine
	key   netip.Addr
	asked Session
	mouth mouth // nil while it cannot be opened

	since     time.Time
	ups       uint64
	downs     uint64
	taken     uint64
	refused   uint64
	said      uint64
	lastError string

	at    time.Time // when tick is due
	place int       // in the agenda
	// leaving is when a session that is no longer wanted is forgotten; zero: it
	// is wanted.
	leaving time.Time
}

// fits is whether a packet came the way that the session's packets come. All
// that is asked of a single hop is here: nobody who is farther away can send
// with a hop limit of 255 (RFC 5881, section 5).
func (s *session) fits(a arrival) bool {
	local, link := s.asked.local(), s.asked.link()
	return a.hops == 255 && a.key() == s.key &&
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

// agenda is a heap of sessions: the one that is due next is the first. One that
// is never due is last.
type agenda []*session

func (a agenda) Len() int { return len(a) }

func (a agenda) Less(i, j int) bool {
	if a[i].at.IsZero() || a[j].at.IsZero() {
		return !a[i].at.IsZero()
	}
	return a[i].at.Before(a[j].at)
}

func (a agenda) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].place, a[j].place = i, j
}

func (a *agenda) Push(x any) {
	s := x.(*session)
	s.place = len(*a)
	*a = append(*a, s)
}

func (a *agenda) Pop() any {
	last := len(*a) - 1
	s := (*a)[last]
	(*a)[last] = nil
	*a = (*a)[:last]
	return s
}
