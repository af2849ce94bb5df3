package gobgp

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/config/oc"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"purelb.io/purelb/internal/peering"
)

// application is one Apply to a running server.
type application struct {
	*Server
	ctx        context.Context
	wanted     peering.State
	restarting bool
	problems   []peering.Problem
}

// Reasons of problems.
const (
	reasonInvalid = "Invalid"
	reasonRefused = "Refused"
	reasonPending = "Pending"
)

func (a *application) problem(path, reason string, err error) {
	a.problems = append(a.problems, peering.Problem{Field: path, Reason: reason, Message: err.Error()})
}

// apply removes first what is in the way, and what others need comes before
// them: VRFs, policies, groups, and at last the peers.
func (a *application) apply() {
	a.wanted = a.valid(a.wanted)
	a.removePeers()
	a.removeDynamic()
	a.removeGroups()
	a.vrfs()
	a.policies()
	a.addGroups()
	a.addDynamic()
	a.peers()
}

// removePeers removes those that are not wanted or must begin anew.
func (a *application) removePeers() {
	wanted := map[string]peering.Peer{}
	for _, p := range a.wanted.Peers {
		wanted[p.Name()] = p
	}
	for _, name := range slices.Sorted(maps.Keys(a.found.peers)) {
		f := a.found.peers[name]
		w, stays := wanted[name]
		if stays && reflect.DeepEqual(loud(w), loud(f.peer)) && a.vrfStays(w.VRF) && !a.moved(f) {
			continue
		}
		if err := a.removePeer(f); err != nil {
			a.problem(f.peer.Path, reasonRefused, fmt.Errorf("remove neighbor %s: %w", name, err))
			continue
		}
		delete(a.found.peers, name)
		if !stays {
			a.log.InfoContext(a.ctx, "neighbor removed", "neighbor", name)
		}
	}
}

// loud is what of p cannot be changed while the session lasts.
func loud(p peering.Peer) peering.Peer {
	p.Path, p.Description, p.Timers, p.BFD, p.NextHops, p.Mute = "", "", peering.Timers{}, nil, nil, nil
	p.Families = slices.Clone(p.Families)
	for i := range p.Families {
		p.Families[i].MaxPrefixes, p.Families[i].WarnPercent = 0, 0
	}
	return p
}

// moved says whether another router is at the far end of an unnumbered link.
func (a *application) moved(f session) bool {
	if f.peer.Interface == "" {
		return false
	}
	now, err := oc.GetIPv6LinkLocalNeighborAddress(f.peer.Interface)
	return err == nil && now != f.address.String()
}

// removePeer tells the neighbour and forgets it. GoBGP takes a password from
// its listener only when it is changed, not when the peer is deleted: without
// that, a neighbour that comes back without one would be refused.
func (a *application) removePeer(f session) error {
	if f.peer.Password != "" && f.peer.Interface == "" {
		bare := f.peer
		bare.Password, bare.AdminDown = "", true
		if err := a.update(bare); err != nil {
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

func (a *application) update(p peering.Peer) error {
	return a.engine.call(func() error {
		_, err := a.engine.bgp.UpdatePeer(context.Background(), &api.UpdatePeerRequest{Peer: peerOf(p, false)})
		return err
	})
}

func (a *application) peers() {
	for _, p := range a.wanted.Peers {
		f, there := a.found.peers[p.Name()]
		var err error
		switch {
		case !there:
			f, err = a.addPeer(p)
		case !reflect.DeepEqual(f.peer, p):
			err = a.changePeer(f.peer, p)
			f.peer = p
		}
		if err != nil {
			reason := reasonRefused
			if p.Interface != "" && !there {
				reason = reasonPending
			}
			a.problem(p.Path, reason, fmt.Errorf("neighbor %s: %w", p.Name(), err))
			continue
		}
		a.found.peers[p.Name()] = f
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
	a.log.InfoContext(a.ctx, "neighbor added", "neighbor", p.Name(), "asn", p.ASN)
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

// changePeer changes what does not touch the session. A neighbour that sent too
// much is let in again with a new limit.
func (a *application) changePeer(from, to peering.Peer) error {
	quiet := func(p peering.Peer) []any { return []any{p.Timers, p.Families} }
	if reflect.DeepEqual(quiet(from), quiet(to)) {
		return nil // what else differs are policies and descriptions
	}
	if err := a.update(to); err != nil {
		return err
	}
	if reflect.DeepEqual(from.Families, to.Families) || to.AdminDown {
		return nil
	}
	return a.unlimit(to)
}

// unlimit ends the penalty of a neighbour that had exceeded its limit.
func (a *application) unlimit(p peering.Peer) error {
	peers, err := a.engine.peers(a.found.peers[p.Name()].address.String(), false)
	if err != nil {
		return err
	}
	for _, found := range peers {
		if found.GetState().GetAdminState() != api.PeerState_ADMIN_STATE_PFX_CT {
			continue
		}
		address := found.GetState().GetNeighborAddress()
		err := a.engine.call(func() error {
			return a.engine.bgp.EnablePeer(context.Background(), &api.EnablePeerRequest{Address: address})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *application) removeDynamic() {
	wanted := map[netip.Prefix]peering.Dynamic{}
	for _, d := range a.wanted.Dynamic {
		wanted[d.Prefix] = d
	}
	for _, prefix := range slices.SortedFunc(maps.Keys(a.found.dynamic), comparePrefixes) {
		d := a.found.dynamic[prefix]
		if w, stays := wanted[prefix]; stays && w.Group == d.Group && a.groupStays(d.Group) {
			continue
		}
		if err := a.removePrefix(d); err != nil {
			a.problem(d.Path, reasonRefused, fmt.Errorf("remove dynamic neighbors %v: %w", prefix, err))
			continue
		}
		delete(a.found.dynamic, prefix)
	}
}

// removePrefix ends the sessions that came from it, too.
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
		if err := a.deletePeer(address); err != nil {
			return err
		}
	}
	return nil
}

func (a *application) groupStays(name string) bool {
	i := slices.IndexFunc(a.wanted.Groups, func(g peering.Group) bool { return g.Name == name })
	return i >= 0 && sameGroup(a.wanted.Groups[i], a.found.groups[name])
}

// sameGroup says whether two groups are the same to a neighbour.
func sameGroup(a, b peering.Group) bool {
	a.Path, b.Path, a.Description, b.Description, a.BFD, b.BFD = "", "", "", "", nil, nil
	return reflect.DeepEqual(a, b)
}

func (a *application) removeGroups() {
	for _, name := range slices.Sorted(maps.Keys(a.found.groups)) {
		if a.groupStays(name) {
			continue
		}
		g := a.found.groups[name]
		err := a.engine.call(func() error {
			return a.engine.bgp.DeletePeerGroup(context.Background(), &api.DeletePeerGroupRequest{Name: name})
		})
		if err != nil {
			a.problem(g.Path, reasonRefused, fmt.Errorf("remove peer group %s: %w", name, err))
			continue
		}
		delete(a.found.groups, name)
	}
}

func (a *application) addGroups() {
	for _, g := range a.wanted.Groups {
		if _, there := a.found.groups[g.Name]; !there {
			err := a.engine.call(func() error {
				return a.engine.bgp.AddPeerGroup(context.Background(), &api.AddPeerGroupRequest{PeerGroup: groupOf(g)})
			})
			if err != nil {
				a.problem(g.Path, reasonRefused, fmt.Errorf("peer group %s: %w", g.Name, err))
				continue
			}
		}
		a.found.groups[g.Name] = g
	}
}

func (a *application) addDynamic() {
	for _, d := range a.wanted.Dynamic {
		if _, there := a.found.dynamic[d.Prefix]; !there {
			// Of a group that it does not have, GoBGP dies.
			if _, ok := a.found.groups[d.Group]; !ok {
				a.problem(d.Path, reasonInvalid, fmt.Errorf("there is no peer group %q", d.Group))
				continue
			}
			if err := a.addPrefix(d); err != nil {
				a.problem(d.Path, reasonRefused, fmt.Errorf("dynamic neighbors %v: %w", d.Prefix, err))
				continue
			}
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
		return fmt.Errorf("the kernel does not take the password: %s: %w", why, a.removePrefix(d))
	}
	return nil
}

// vrfs removes, adds and replaces VRFs, and originates the routes that waited
// for theirs.
func (a *application) vrfs() {
	for _, name := range slices.Sorted(maps.Keys(a.found.vrfs)) {
		f := a.found.vrfs[name]
		if a.vrfStays(name) {
			continue
		}
		err := a.engine.call(func() error {
			return a.engine.bgp.DeleteVrf(context.Background(), &api.DeleteVrfRequest{Name: name})
		})
		if err != nil {
			a.problem(f.Path, reasonRefused, fmt.Errorf("remove VRF %s: %w", name, err))
			continue
		}
		delete(a.found.vrfs, name)
		a.wait(name)
	}
	for i, v := range a.wanted.VRFs {
		if _, there := a.found.vrfs[v.Name]; !there {
			if err := a.addVRF(v, uint32(i)+1); err != nil {
				a.problem(v.Path, reasonRefused, fmt.Errorf("VRF %s: %w", v.Name, err))
				continue
			}
		}
		a.found.vrfs[v.Name] = v
		if err := a.originate(a.waiting(v.Name)); err != nil {
			a.problem(v.Path, reasonRefused, fmt.Errorf("routes of VRF %s: %w", v.Name, err))
		}
	}
}

// vrfStays says whether a VRF is wanted as it is. One that a neighbour uses
// cannot be replaced.
func (a *application) vrfStays(name string) bool {
	i := slices.IndexFunc(a.wanted.VRFs, func(v peering.VRF) bool { return v.Name == name })
	return name == "" || i >= 0 && sameVRF(a.wanted.VRFs[i], a.found.vrfs[name])
}

func sameVRF(a, b peering.VRF) bool {
	a.Path, b.Path = "", ""
	return reflect.DeepEqual(a, b)
}

// wait makes the routes of a VRF that is gone wait for the next of its name.
func (a *application) wait(vrf string) {
	for key := range a.routes {
		if key.VRF == vrf {
			a.pending[key] = true
		}
	}
}

func (a *application) waiting(vrf string) []peering.Route {
	var routes []peering.Route
	for key := range a.pending {
		if key.VRF == vrf {
			routes = append(routes, a.routes[key])
		}
	}
	return routes
}

func (a *application) addVRF(v peering.VRF, id uint32) error {
	out := &api.Vrf{Name: v.Name, Id: id}
	rd, err := bgp.ParseRouteDistinguisher(v.RD)
	if err != nil {
		return fmt.Errorf("route distinguisher %q: %w", v.RD, err)
	}
	if out.Rd, err = apiutil.MarshalRD(rd); err != nil {
		return err
	}
	if out.ImportRt, err = targets(v.ImportRT); err != nil {
		return err
	}
	if out.ExportRt, err = targets(v.ExportRT); err != nil {
		return err
	}
	return a.engine.call(func() error {
		return a.engine.bgp.AddVrf(context.Background(), &api.AddVrfRequest{Vrf: out})
	})
}

func targets(texts []string) ([]*api.RouteTarget, error) {
	var out []*api.RouteTarget
	for _, text := range texts {
		rt, err := bgp.ParseRouteTarget(text)
		if err != nil {
			return nil, fmt.Errorf("route target %q: %w", text, err)
		}
		target, err := apiutil.MarshalRT(rt)
		if err != nil {
			return nil, fmt.Errorf("route target %q: %w", text, err)
		}
		out = append(out, target)
	}
	return out, nil
}

// policies sets them all at once, and has the neighbours whom a change concerns
// walk through them again. The chains are had as a whole or not at all, as a
// statement that is left out may be the one that rejects: until they can be had,
// the last ones stay, and the first reject everything.
func (a *application) policies() {
	wanted := a.wanted
	next := policiesOf(wanted)
	if !a.sound() || !a.set(next, a.blame) {
		wanted.Sets, wanted.Import, wanted.Export = a.found.sets, a.found.imports, a.found.exports
		next = policiesOf(wanted)
		if !a.set(next, func(err error) { a.problem(policyPath, reasonRefused, err) }) {
			return
		}
	}
	before := a.found.policies
	a.found.sets, a.found.imports, a.found.exports, a.found.policies = wanted.Sets, wanted.Import, wanted.Export, next
	a.refresh(before, next)
}

// policyPath is what a problem with all policies is about.
const policyPath = "spec.policyDefinitions"

// sound finds what GoBGP would take and not do.
func (a *application) sound() bool {
	n := len(a.problems)
	for _, st := range slices.Concat(a.wanted.Import.Statements, a.wanted.Export.Statements) {
		if err := checkStatement(st); err != nil {
			a.problem(st.Path, reasonInvalid, fmt.Errorf("statement %s: %w", st.Name, err))
		}
	}
	return len(a.problems) == n
}

// set says whether GoBGP has p now.
func (a *application) set(p policies, refused func(error)) bool {
	if p.equal(a.found.policies) {
		return true
	}
	if err := a.engine.setPolicies(p); err != nil {
		refused(err)
		return false
	}
	return true
}

// refresh walks through the policies again for those neighbours for whom they
// have changed.
func (a *application) refresh(before, after policies) {
	if before.equal(after) {
		return
	}
	peers, err := a.engine.peers("", false)
	if err != nil {
		a.problem(policyPath, reasonRefused, err)
		return
	}
	for _, p := range peers {
		address, err := netip.ParseAddr(p.GetState().GetNeighborAddress())
		if err != nil {
			continue
		}
		bare := address.WithZone("")
		for direction, changed := range map[api.ResetPeerRequest_Direction]bool{
			api.ResetPeerRequest_DIRECTION_IN:  before.imports.concerning(bare, before.sets) != after.imports.concerning(bare, after.sets),
			api.ResetPeerRequest_DIRECTION_OUT: before.exports.concerning(bare, before.sets) != after.exports.concerning(bare, after.sets),
		} {
			if !changed {
				continue
			}
			if err := a.engine.refresh(address, direction); err != nil {
				a.problem(policyPath, reasonRefused, fmt.Errorf("apply policies to neighbor %v: %w", address, err))
			}
		}
	}
}

// blame finds what is wrong in policies that GoBGP refuses, by offering every
// statement by itself to a server that does nothing else.
func (a *application) blame(whole error) {
	scratch := startEngine(a.log, newEvents())
	defer func() { _ = scratch.stop(a.ctx, false) }()
	found := false
	for _, chain := range []peering.Chain{a.wanted.Import, a.wanted.Export} {
		for _, st := range chain.Statements {
			alone := peering.State{Sets: a.wanted.Sets, Export: peering.Chain{Statements: []peering.Statement{st}}}
			alone.Sets = slices.DeleteFunc(slices.Clone(alone.Sets), func(set peering.Set) bool { return !refers(st, set) })
			if err := scratch.setPolicies(policiesOf(alone)); err != nil {
				found = true
				a.problem(st.Path, reasonRefused, fmt.Errorf("statement %s: %w", st.Name, err))
			}
		}
	}
	if !found {
		a.problem(policyPath, reasonRefused, whole)
	}
}

func comparePrefixes(a, b netip.Prefix) int {
	if c := a.Addr().Compare(b.Addr()); c != 0 {
		return c
	}
	return strings.Compare(a.String(), b.String())
}
