package gobgp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/config/oc"

	"purelb.io/purelb/internal/bgp/peering"
)

// removeMoved removes the neighbors on unnumbered links that have another router at the other end
// now.
func (a *application) removeMoved() {
	var moved []peering.Peer
	for _, p := range a.found.state().Peers {
		if p.Interface == "" {
			continue
		}
		now, err := oc.GetIPv6LinkLocalNeighborAddress(p.Interface)
		if err == nil && now != a.found.peers[p.Name()].address.String() {
			moved = append(moved, p)
		}
	}
	a.removePeers(moved)
}

func (a *application) removePeers(peers []peering.Peer) {
	for _, p := range peers {
		if err := a.removePeer(a.found.peers[p.Name()]); err != nil {
			a.problem(p.Path, reasonRefused, fmt.Errorf("remove neighbor %s: %w", p.Name(), err))
			continue
		}
		a.events.forgetNeighbor(a.found.peers[p.Name()].address)
		delete(a.found.peers, p.Name())
		a.log.InfoContext(a.ctx, "neighbor removed", "neighbor", p.Name())
	}
}

// removePeer ends the session and removes the neighbor. GoBGP removes a password from its listener
// only when the password changes, not when the peer is deleted. So removePeer first removes the
// password: otherwise a neighbor that comes back without a password would be refused.
func (a *application) removePeer(f session) error {
	if f.peer.Password != "" {
		bare := f
		bare.peer.Password, bare.peer.AdminDown = "", true
		err := a.changePeer(bare)
		switch {
		case err == nil:
			a.found.peers[f.peer.Name()] = bare
		case f.peer.Interface == "":
			return err
		}
		// For a neighbor on an unnumbered link, GoBGP finds nothing to change if the kernel no
		// longer knows the neighbor. removePeer removes it all the same.
	}
	return a.deletePeer(f.address)
}

// deletePeer needs an address: GoBGP panics for an interface alone.
func (a *application) deletePeer(address netip.Addr) error {
	return a.engine.call(func() error {
		return a.engine.bgp.DeletePeer(context.Background(), &api.DeletePeerRequest{Address: address.String()})
	})
}

func (a *application) addPeers(peers []peering.Peer) {
	for _, p := range peers {
		if _, there := a.found.peers[p.Name()]; there {
			continue
		}
		f, err := a.addPeer(p)
		if err != nil {
			reason := reasonRefused
			if p.Interface != "" {
				reason = reasonPending
			}
			a.problem(p.Path, reason, fmt.Errorf("neighbor %s: %w", p.Name(), err))
			continue
		}
		a.found.peers[p.Name()] = f
		a.log.InfoContext(a.ctx, "neighbor added", "neighbor", p.Name(), "asn", p.ASN)
	}
}

func (a *application) addPeer(p peering.Peer) (session, error) {
	f, err := a.located(p)
	if err != nil {
		return session{}, err
	}
	err = a.engine.call(func() error {
		return a.engine.bgp.AddPeer(context.Background(), &api.AddPeerRequest{Peer: a.peerOf(f, a.keepsRoutes(f.peer))})
	})
	if err != nil {
		return session{}, err
	}
	if why, failed := a.engine.log.md5Failure(f.address.String()); failed {
		return session{}, errors.Join(fmt.Errorf("the kernel does not take the password: %s", why), a.deletePeer(f.address))
	}
	return f, nil
}

// keepsRoutes reports whether a neighbor may still keep the routes of an earlier server. Some neighbors
// are not known when the server starts, and a session that ended at its start was none for them.
func (s *Server) keepsRoutes(p peering.Peer) bool {
	return !s.restarted.IsZero() && s.now().Before(s.restarted.Add(p.GracefulRestart.Restart))
}

// located finds the address of a neighbor on an unnumbered link in the same way as GoBGP.
func (a *application) located(p peering.Peer) (session, error) {
	if p.Interface == "" {
		return session{p, p.Address}, nil
	}
	text, err := oc.GetIPv6LinkLocalNeighborAddress(p.Interface)
	if err != nil {
		return session{}, err
	}
	address, err := netip.ParseAddr(text)
	if err == nil && p.LinkLocal.IsValid() && p.LinkLocal.WithZone("") != address.WithZone("") {
		err = fmt.Errorf("the policies are for %v, and %v is there now", p.LinkLocal, address)
	}
	return session{p, address}, err
}

// updatePeers changes options that do not touch the session. GoBGP does not store policies and
// descriptions at a neighbor.
func (a *application) updatePeers(peers []peering.Peer) {
	for _, p := range peers {
		f := a.found.peers[p.Name()]
		var err error
		if f.peer.Timers != p.Timers || !reflect.DeepEqual(f.peer.Families, p.Families) {
			err = a.changePeer(session{p, f.address})
		}
		if err != nil {
			a.problem(p.Path, reasonRefused, fmt.Errorf("neighbor %s: %w", p.Name(), err))
			continue
		}
		f.peer = p
		a.found.peers[p.Name()] = f
	}
}

func (a *application) changePeer(f session) error {
	return a.engine.call(func() error {
		_, err := a.engine.bgp.UpdatePeer(context.Background(), &api.UpdatePeerRequest{Peer: a.peerOf(f, false)})
		return err
	})
}

// peerOf translates f for GoBGP. It sets the device, because GoBGP's global device only applies to
// listeners. It sets the address, because GoBGP panics for a neighbor that is held down and has no
// address.
func (a *application) peerOf(f session, restarting bool) *api.Peer {
	f.peer.Device = cmp.Or(f.peer.Device, a.found.global.Device)
	out := peerOf(f.peer, restarting)
	out.Conf.NeighborAddress = f.address.String()
	return out
}
