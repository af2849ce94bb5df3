package gobgp

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"strings"

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

// apply carries out what differs from what there is. What cannot be removed is
// still there, and nothing takes its place.
func (a *application) apply() {
	a.wanted = a.valid(a.wanted)
	a.removeMoved()
	c := peering.Diff(a.wanted, a.found.state())
	a.removePeers(c.RemovePeers)
	a.removeDynamic(c.RemoveDynamic)
	a.removeGroups(c.RemoveGroups)
	a.removeVRFs(c.RemoveVRFs)
	a.policies()
	a.note(c)
	a.addVRFs(c.AddVRFs)
	a.originateWaiting()
	a.addGroups(c.AddGroups)
	a.addDynamic(c.AddDynamic)
	a.addPeers(c.AddPeers)
	a.updatePeers(c.UpdatePeers)
}

// note takes in what GoBGP need not know.
func (a *application) note(c peering.Changes) {
	for _, v := range c.UpdateVRFs {
		a.found.vrfs[v.Name] = v
	}
	for _, g := range c.UpdateGroups {
		a.found.groups[g.Name] = g
	}
	for _, d := range c.UpdateDynamic {
		a.found.dynamic[d.Prefix] = d
	}
}

// state is what there is, in order, but for policies.
func (f found) state() peering.State {
	var s peering.State
	for _, name := range slices.Sorted(maps.Keys(f.peers)) {
		s.Peers = append(s.Peers, f.peers[name].peer)
	}
	for _, name := range slices.Sorted(maps.Keys(f.groups)) {
		s.Groups = append(s.Groups, f.groups[name])
	}
	for _, prefix := range slices.SortedFunc(maps.Keys(f.dynamic), comparePrefixes) {
		s.Dynamic = append(s.Dynamic, f.dynamic[prefix])
	}
	for _, name := range slices.Sorted(maps.Keys(f.vrfs)) {
		s.VRFs = append(s.VRFs, f.vrfs[name])
	}
	return s
}

func comparePrefixes(a, b netip.Prefix) int {
	if c := a.Addr().Compare(b.Addr()); c != 0 {
		return c
	}
	return strings.Compare(a.String(), b.String())
}
