package gobgp

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/osrg/gobgp/v4/api"

	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/bgp/peering"
)

// renewPause is the least time between two renewals of one neighbor. A session that ends sooner gets the
// pause of GoBGP, which is as long.
//
// GoBGP waits for 5 s after each end of a session, unless it sent the reset itself. Meanwhile it closes
// connections that the neighbor opens, and keeps one that it has opened itself. By the end of the pause
// a neighbor with a short hold time has closed that connection, so the next session ends at its start.
const renewPause = 5 * time.Second

// repairMin and repairMax limit the pauses before a failed renewal is repeated.
const (
	repairMin = time.Second
	repairMax = 30 * time.Second
)

// renewal renews the sessions of e that went down, until e stops.
func (s *Server) renewal(e *engine) {
	var repair <-chan time.Time
	pauses := backoff.Pauses{Min: repairMin, Max: repairMax}
	renewed := map[netip.Addr]time.Time{}
	for {
		select {
		case neighbor := <-s.events.lost:
			now := s.now()
			maps.DeleteFunc(renewed, func(_ netip.Addr, at time.Time) bool { return now.Sub(at) >= renewPause })
			if _, recently := renewed[neighbor]; recently {
				continue
			}
			renewed[neighbor] = now
			if !s.renew(e, neighbor) {
				pauses.Reset()
				repair = time.After(pauses.Next())
			}
		case <-repair:
			if repair = nil; !s.repair(e) {
				repair = time.After(pauses.Next())
			}
		case <-e.life.Done():
			return
		}
	}
}

// renew removes the neighbor and adds it again, if it still exists and has no session. GoBGP has no
// other way to begin the next session without a pause. renew reports whether the neighbor exists
// afterwards.
func (s *Server) renew(e *engine, neighbor netip.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.engine != e {
		return true
	}
	for name, p := range s.found.peers {
		if p.Address != neighbor || p.AdminDown || !s.renewable(neighbor) {
			continue
		}
		a := application{Server: s, ctx: context.Background()}
		if err := a.removePeer(p); err != nil {
			s.log.Warn("renew the session", "neighbor", neighbor, "error", err)
			return false
		}
		delete(s.found.peers, name)
		if err := a.addPeer(p); err != nil {
			s.log.Warn("renew the session", "neighbor", neighbor, "error", err)
			return false
		}
		s.log.Debug("renewed the session", "neighbor", neighbor)
		return true
	}
	return true
}

// renewable reports whether a renewal of the neighbor loses nothing: it has no session, is not over its
// prefix limit, and no routes of it are kept while it restarts gracefully (RFC 4724).
func (s *Server) renewable(neighbor netip.Addr) bool {
	peers, err := s.engine.peers(neighbor.String(), false)
	if err != nil || len(peers) != 1 {
		return false
	}
	p := peers[0].GetState()
	keeps := s.wanted.Learns && slices.ContainsFunc(peers[0].GetAfiSafis(), func(f *api.AfiSafi) bool {
		return f.GetMpGracefulRestart().GetState().GetRunning()
	})
	return p.GetSessionState() <= api.PeerState_SESSION_STATE_ACTIVE && p.GetAdminState() == api.PeerState_ADMIN_STATE_UP && !keeps
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
	c := peering.Diff(a.wanted, s.found.state())
	return len(c.Replace)+len(c.Add) == 0
}
