package gobgp

import (
	"context"
	"net/netip"
	"time"
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

// renewal makes the sessions of e begin anew that ended at their beginning, until
// e stops.
func (s *Server) renewal(e *engine) {
	for {
		select {
		case neighbor := <-s.events.stillborn:
			s.renew(e, neighbor)
		case <-e.stopping:
			return
		}
	}
}

// renew removes and adds the neighbour, if there still is such a one: that alone
// makes GoBGP drop the connection that it keeps, and begin without a rest.
func (s *Server) renew(e *engine, neighbor netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.engine != e {
		return
	}
	for name, f := range s.found.peers {
		if f.address != neighbor || f.peer.Passive {
			continue
		}
		a := application{Server: s, ctx: context.Background()}
		if err := a.removePeer(f); err != nil {
			s.log.Warn("renew the session", "neighbor", neighbor, "error", err)
			return
		}
		delete(s.found.peers, name)
		again, err := a.addPeer(f.peer)
		if err != nil {
			// The next Apply finds that it is missing, and says why.
			s.log.Warn("renew the session", "neighbor", neighbor, "error", err)
			return
		}
		s.found.peers[name] = again
		s.log.Info("renewed the session, which ended at its beginning", "neighbor", neighbor)
	}
}
