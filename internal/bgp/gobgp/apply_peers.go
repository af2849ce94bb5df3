package gobgp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/osrg/gobgp/v4/api"

	"purelb.io/purelb/internal/bgp/peering"
)

func (a *application) removePeers(peers []peering.Peer) {
	for _, p := range peers {
		if err := a.removePeer(a.found.peers[p.Name()]); err != nil {
			a.problem(p.Path, fmt.Errorf("remove neighbor %s: %w", p.Name(), err))
			continue
		}
		a.events.forgetNeighbor(a.found.peers[p.Name()].Address)
		delete(a.found.peers, p.Name())
		a.log.InfoContext(a.ctx, "neighbor removed", "neighbor", p.Name())
	}
}

// removePeer ends the session and removes the neighbor. GoBGP removes a password from its listener
// only when the password changes, not when the peer is deleted. So removePeer first removes the
// password: otherwise a neighbor that comes back without a password would be refused.
func (a *application) removePeer(p peering.Peer) error {
	if p.Password != "" {
		p.Password, p.AdminDown = "", true
		if err := a.changePeer(p); err != nil {
			return err
		}
		a.found.peers[p.Name()] = p
	}
	return a.deletePeer(p)
}

func (a *application) deletePeer(p peering.Peer) error {
	return a.engine.call(func() error {
		return a.engine.bgp.DeletePeer(context.Background(), &api.DeletePeerRequest{Address: p.Address.String()})
	})
}

func (a *application) addPeers(peers []peering.Peer) {
	for _, p := range peers {
		if _, there := a.found.peers[p.Name()]; there {
			continue
		}
		a.events.forgetNeighbor(p.Address)
		if err := a.addPeer(p); err != nil {
			a.problem(p.Path, fmt.Errorf("neighbor %s: %w", p.Name(), err))
			continue
		}
		a.log.InfoContext(a.ctx, "neighbor added", "neighbor", p.Name(), "asn", p.ASN)
	}
}

func (a *application) addPeer(p peering.Peer) error {
	err := a.engine.call(func() error {
		return a.engine.bgp.AddPeer(context.Background(), &api.AddPeerRequest{Peer: a.peerOf(p, a.keepsRoutes(p))})
	})
	if err != nil {
		return err
	}
	if why, failed := a.engine.log.md5Failure(p.Address.String()); failed {
		return errors.Join(fmt.Errorf("the kernel does not take the password: %s", why), a.deletePeer(p))
	}
	a.found.peers[p.Name()] = p
	return nil
}

// keepsRoutes reports whether a neighbor may still keep the routes of an earlier server. Some neighbors
// are not known when the server starts, and a session that ended at its start was none for them.
func (s *Server) keepsRoutes(p peering.Peer) bool {
	return !s.restarted.IsZero() && s.now().Before(s.restarted.Add(p.GracefulRestart.Restart))
}

// updatePeers changes options that do not touch the session. GoBGP does not store policies and
// descriptions at a neighbor.
func (a *application) updatePeers(peers []peering.Peer) {
	for _, p := range peers {
		before := a.found.peers[p.Name()]
		if before.Timers != p.Timers || !reflect.DeepEqual(before.Families, p.Families) {
			if err := a.changePeer(p); err != nil {
				a.problem(p.Path, fmt.Errorf("neighbor %s: %w", p.Name(), err))
				continue
			}
		}
		a.found.peers[p.Name()] = p
	}
}

func (a *application) changePeer(p peering.Peer) error {
	return a.engine.call(func() error {
		_, err := a.engine.bgp.UpdatePeer(context.Background(), &api.UpdatePeerRequest{Peer: a.peerOf(p, false)})
		return err
	})
}

// peerOf translates p for GoBGP. It sets the device, because GoBGP's global device only applies to
// listeners.
func (a *application) peerOf(p peering.Peer, restarting bool) *api.Peer {
	p.Device = cmp.Or(p.Device, a.found.global.Device)
	return peerOf(p, restarting)
}
