package gobgp

import (
	"context"
	"fmt"
	"net/netip"
	"reflect"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/config/oc"

	"purelb.io/purelb/internal/peering"
)

// removeMoved forgets the neighbours of unnumbered links that have another router
// at the far end now.
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
		delete(a.found.peers, p.Name())
		a.log.InfoContext(a.ctx, "neighbor removed", "neighbor", p.Name())
	}
}

// removePeer tells the neighbour and forgets it. GoBGP takes a password from
// its listener only when it is changed, not when the peer is deleted: without
// that, a neighbour that comes back without one would be refused.
func (a *application) removePeer(f session) error {
	if f.peer.Password != "" && f.peer.Interface == "" {
		bare := f.peer
		bare.Password, bare.AdminDown = "", true
		if err := a.changePeer(bare); err != nil {
			return err
		}
	}
	return a.deletePeer(f.address)
}

// deletePeer wants an address: of an interface alone, GoBGP dies.
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
	err := a.engine.call(func() error {
		return a.engine.bgp.AddPeer(context.Background(), &api.AddPeerRequest{Peer: peerOf(p, a.restarting)})
	})
	if err != nil {
		return session{}, err
	}
	f := session{peer: p, address: p.Address}
	if p.Interface != "" {
		if f.address, err = a.resolved(p.Interface); err != nil {
			return session{}, err
		}
	}
	if why, failed := a.engine.log.md5Failure(f.address.String()); failed {
		return session{}, fmt.Errorf("the kernel does not take the password: %s: %w", why, a.deletePeer(f.address))
	}
	return f, nil
}

// resolved is the address of the neighbour behind an interface.
func (a *application) resolved(link string) (netip.Addr, error) {
	peers, err := a.engine.peers(link, false)
	if err != nil {
		return netip.Addr{}, err
	}
	for _, p := range peers {
		if p.GetConf().GetNeighborInterface() == link {
			return netip.ParseAddr(p.GetState().GetNeighborAddress())
		}
	}
	return netip.Addr{}, fmt.Errorf("no neighbor on %s", link)
}

// updatePeers changes what does not touch the session. A neighbour that sent too
// much is let in again with a new limit. Policies and descriptions are nothing
// that GoBGP has of a neighbour.
func (a *application) updatePeers(peers []peering.Peer) {
	for _, p := range peers {
		f := a.found.peers[p.Name()]
		limits := !reflect.DeepEqual(f.peer.Families, p.Families)
		var err error
		if limits || f.peer.Timers != p.Timers {
			err = a.changePeer(p)
		}
		if err == nil && limits && !p.AdminDown {
			err = a.unlimit(f.address)
		}
		if err != nil {
			a.problem(p.Path, reasonRefused, fmt.Errorf("neighbor %s: %w", p.Name(), err))
			continue
		}
		f.peer = p
		a.found.peers[p.Name()] = f
	}
}

func (a *application) changePeer(p peering.Peer) error {
	return a.engine.call(func() error {
		_, err := a.engine.bgp.UpdatePeer(context.Background(), &api.UpdatePeerRequest{Peer: peerOf(p, false)})
		return err
	})
}

// unlimit ends the penalty of a neighbour that had exceeded its limit.
func (a *application) unlimit(address netip.Addr) error {
	peers, err := a.engine.peers(address.String(), false)
	if err != nil {
		return err
	}
	for _, found := range peers {
		if found.GetState().GetAdminState() != api.PeerState_ADMIN_STATE_PFX_CT {
			continue
		}
		err := a.engine.call(func() error {
			return a.engine.bgp.EnablePeer(context.Background(), &api.EnablePeerRequest{Address: found.GetState().GetNeighborAddress()})
		})
		if err != nil {
			return err
		}
	}
	return nil
}
