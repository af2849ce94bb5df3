package gobgp

import (
	"context"
	"net/netip"
	"time"

	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/bgp/peering"
)

// minSession is the shortest plausible life of a session whose hold timer expired. If the
// neighbor reports the expiry earlier, its timer had expired before the session began.
// GoBGP waits for 5 s after a failed attempt. Meanwhile it keeps a connection that it has
// opened and on which both sides have sent OPEN, and uses it for the next session. By then,
// a neighbor with a shorter hold time has closed that connection. GoBGP delays the next
// connection by the same time, so such a session never comes up.
const minSession = time.Second

// holdTimerExpired is the part of GoBGP's text that stands for a NOTIFICATION of RFC 4271, 6.5. The
// space keeps subcodes out: "subcode 4(administrative reset)" is the reset that Down asks for.
const holdTimerExpired = " code 4("

// repairMin and repairMax limit the pauses before a failed renewal is repeated.
const (
	repairMin = time.Second
	repairMax = 30 * time.Second
)

// renewal renews the sessions of e that ended at their start, until e stops.
func (s *Server) renewal(e *engine) {
	var repair <-chan time.Time
	pauses := backoff.Pauses{Min: repairMin, Max: repairMax}
	for {
		select {
		case neighbor := <-s.events.expired:
			if !s.renew(e, neighbor) {
				pauses.Reset()
				repair = time.After(pauses.Next())
			}
		case <-repair:
			if repair = nil; !s.repair(e) {
				repair = time.After(pauses.Next())
			}
		case <-e.stopping:
			return
		}
	}
}

// renew removes the neighbor and adds it again, if it still exists. GoBGP has no other way
// to drop the connection that it keeps, and to start without a pause. renew reports whether
// the neighbor exists afterwards.
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
		s.log.Info("renewed the session, which ended at its start", "neighbor", neighbor)
		return true
	}
	return true
}

// repair repeats the last Apply: no other caller would, because the wanted State has not
// changed. It reports whether all neighbors exist.
func (s *Server) repair(e *engine) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.engine != e {
		return true
	}
	a := s.again(context.Background())
	return len(peering.Diff(a.wanted, s.found.state()).AddPeers) == 0
}
