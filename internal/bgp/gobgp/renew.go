package gobgp

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/osrg/gobgp/v4/api"

	"purelb.io/purelb/internal/bgp/peering"
)

// renewPause is the least time between two renewals of one neighbor, also after a failed one. A session that
// ends sooner gets the pause of GoBGP, which is as long.
//
// GoBGP waits for 5 s after each end of a session, unless it sent the reset itself. Meanwhile it closes
// connections that the neighbor opens, and keeps one that it has opened itself. By the end of the pause
// a neighbor with a short hold time has closed that connection, so the next session ends at its start.
const renewPause = 5 * time.Second

// renewal renews the sessions of e that went down, until e stops. It repeats a renewal that failed.
func (s *Server) renewal(e *engine) {
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
			if err := s.renew(e, neighbor); err != nil {
				s.log.Warn("renew the session", "neighbor", neighbor, "error", err)
				time.AfterFunc(renewPause, func() { s.events.lose(neighbor) })
			}
		case <-e.life.Done():
			return
		}
	}
}

// renew removes a wanted neighbor without a session and adds it again. GoBGP has no other way to begin the
// next session without a pause. An earlier attempt may have removed the neighbor, or left it without its
// password (see removePeer).
func (s *Server) renew(e *engine, neighbor netip.Addr) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.wanted.Peers, func(p peering.Peer) bool { return p.Address == neighbor && !p.AdminDown })
	if s.engine != e || i < 0 {
		return nil
	}
	p := s.wanted.Peers[i]
	a := application{Server: s, ctx: context.Background()}
	if f, there := s.found.peers[p.Name()]; there {
		if !f.AdminDown {
			if p = f; !s.renewable(neighbor) {
				return nil
			}
		}
		if err := a.removePeer(f); err != nil {
			return err
		}
		delete(s.found.peers, p.Name())
	}
	s.log.Debug("renewing the session", "neighbor", neighbor)
	return a.addPeer(p)
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
