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

	at    time.Time // when tick is due
	place int       // in the agenda
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

// agenda is a heap of sessions. The session that is due next is first. Sessions that are
// never due are last.
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
