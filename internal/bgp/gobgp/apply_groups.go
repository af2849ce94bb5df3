package gobgp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/osrg/gobgp/v4/api"

	"purelb.io/purelb/internal/bgp/peering"
)

func (a *application) removeGroups(groups []peering.Group) {
	for _, g := range groups {
		err := a.engine.call(func() error {
			return a.engine.bgp.DeletePeerGroup(context.Background(), &api.DeletePeerGroupRequest{Name: g.Name})
		})
		if err != nil {
			a.problem(g.Path, reasonRefused, fmt.Errorf("remove peer group %s: %w", g.Name, err))
			continue
		}
		delete(a.found.groups, g.Name)
	}
}

func (a *application) addGroups(groups []peering.Group) {
	for _, g := range groups {
		if _, there := a.found.groups[g.Name]; there {
			continue
		}
		err := a.engine.call(func() error {
			return a.engine.bgp.AddPeerGroup(context.Background(), &api.AddPeerGroupRequest{PeerGroup: groupOf(g)})
		})
		if err != nil {
			a.problem(g.Path, reasonRefused, fmt.Errorf("peer group %s: %w", g.Name, err))
			continue
		}
		a.found.groups[g.Name] = g
	}
}

func (a *application) removeDynamic(dynamic []peering.Dynamic) {
	for _, d := range dynamic {
		if err := a.removePrefix(d); err != nil {
			a.problem(d.Path, reasonRefused, fmt.Errorf("remove dynamic neighbors %v: %w", d.Prefix, err))
			continue
		}
		delete(a.found.dynamic, d.Prefix)
	}
}

// removePrefix also ends the sessions that came from the prefix.
func (a *application) removePrefix(d peering.Dynamic) error {
	err := a.engine.call(func() error {
		return a.engine.bgp.DeleteDynamicNeighbor(context.Background(), &api.DeleteDynamicNeighborRequest{
			Prefix: d.Prefix.String(), PeerGroup: d.Group,
		})
	})
	if err != nil {
		return err
	}
	peers, err := a.engine.peers("", false)
	if err != nil {
		return err
	}
	for _, p := range peers {
		address, err := netip.ParseAddr(p.GetState().GetNeighborAddress())
		if err != nil || p.GetConf().GetPeerGroup() != d.Group || !d.Prefix.Contains(address.WithZone("")) {
			continue
		}
		if err := a.deleteDynamicPeer(address); err != nil {
			return err
		}
	}
	return nil
}

func (a *application) addDynamic(dynamic []peering.Dynamic) {
	for _, d := range dynamic {
		if _, there := a.found.dynamic[d.Prefix]; there {
			continue
		}
		// GoBGP panics for a group that it does not have.
		if _, ok := a.found.groups[d.Group]; !ok {
			a.problem(d.Path, reasonRefused, fmt.Errorf("there is no peer group %q", d.Group))
			continue
		}
		if err := a.addPrefix(d); err != nil {
			a.problem(d.Path, reasonRefused, fmt.Errorf("dynamic neighbors %v: %w", d.Prefix, err))
			continue
		}
		a.found.dynamic[d.Prefix] = d
	}
}

func (a *application) addPrefix(d peering.Dynamic) error {
	err := a.engine.call(func() error {
		return a.engine.bgp.AddDynamicNeighbor(context.Background(), &api.AddDynamicNeighborRequest{
			DynamicNeighbor: &api.DynamicNeighbor{Prefix: d.Prefix.String(), PeerGroup: d.Group},
		})
	})
	if err != nil {
		return err
	}
	if why, failed := a.engine.log.md5Failure(d.Prefix.String()); failed {
		return errors.Join(fmt.Errorf("the kernel does not take the password: %s", why), a.removePrefix(d))
	}
	return nil
}
