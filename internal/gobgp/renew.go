package gobgp

import (
	"context"
	"net/netip"
	"time"

	"purelb.io/purelb/internal/peering"
)

// stillborn is how early no neighbour can tell that the hold timer of a session
// expired, unless it did before the session began. While it rests after a failed
// attempt, for 5 s, GoBGP keeps a connection that it has opened and on which both
// have said OPEN, and takes it for the next session. A neighbour whose hold time
// is shorter has given it up by then. The next connection waits for just as long,
// so that such a session never comes up.
const stillborn = time.Second

// holdTimerExpired is in GoBGP's words for a NOTIFICATION of RFC 4271, 6.5.
const holdTimerExpired = "code 4("

// repairMin and repairMax are the pauses before what could not be renewed is
// applied again.
const (
	repairMin = time.Second
	repairMax = 30 * time.Second
)

// renewal makes the sessions of e begin anew that ended at their beginning, until
// e stops.
func (s *Server) renewal(e *engine) {
	var repair <-chan time.Time
	pause := repairMin
	for {
		select {
		case neighbor := <-s.events.stillborn:
			if !s.renew(e, neighbor) {
				repair, pause = time.After(repairMin), repairMin
			}
		case <-repair:
			if repair = nil; !s.repair(e) {
				pause = min(2*pause, repairMax)
				repair = time.After(pause)
			}
		case <-e.stopping:
			return
		}
	}
}

// renew removes and adds the neighbour, if there still is such a one: that alone
// makes GoBGP drop the connection that it keeps, and begin without a rest. It says
// whether the neighbour is as it was.
func (s *Server) renew(e *engine, neighbor netip.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.engine != e {
		return true
	}
	for name, f := range s.found.peers {
		if f.address != neighbor || f.peer.Passive {
			continue
		}
		a := application{Server: s, ctx: context.Background()}
		if err := a.removePeer(f); err != nil {
			s.log.Warn("renew the session", "neighbor", neighbor, "error", err)
			return false
		}
		delete(s.found.peers, name)
		again, err := a.addPeer(f.peer)
		if err != nil {
			s.log.Warn("renew the session", "neighbor", neighbor, "error", err)
			return false
		}
		s.found.peers[name] = again
		s.log.Info("renewed the session, which ended at its beginning", "neighbor", neighbor)
		return true
	}
	return true
}

// repair applies again what was applied last: nobody else would, as nothing else
// is wanted than before. It says whether everybody is there.
func (s *Server) repair(e *engine) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.engine != e {
		return true
	}
	a := s.again(context.Background())
	return len(peering.Diff(a.wanted, s.found.state()).AddPeers) == 0
}
