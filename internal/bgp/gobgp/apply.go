package gobgp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/bgp/peering"
)

// application is one Apply to a running server.
type application struct {
	*Server
	ctx      context.Context
	wanted   peering.State
	problems []peering.Problem
}

// Reasons of problems.
const (
	reasonRefused = "Refused"
	reasonPending = "Pending"
)

func (a *application) problem(path, reason string, err error) {
	a.problems = append(a.problems, peering.Problem{Field: path, Reason: reason, Message: err.Error()})
}

// apply carries out the differences. If a part cannot be removed, the part that should replace it
// is not added.
//
// As long as the policies cannot be set, apply adds no neighbor, and ends no session for a
// change: the policies in effect do not cover new neighbors.
func (a *application) apply() {
	a.removeMoved()
	c := peering.Diff(a.wanted, a.found.state())
	leave, change := splitRemovals(c.RemovePeers, c.AddPeers, peering.Peer.Name)
	leaveDynamic, changeDynamic := splitRemovals(c.RemoveDynamic, c.AddDynamic, prefixOfDynamic)
	a.removePeers(leave)
	a.removeDynamic(leaveDynamic)
	before := a.found.policies
	if !a.policies() {
		a.note(c)
		a.withhold(c)
		a.updatePeers(c.UpdatePeers)
		return
	}
	a.removePeers(change)
	a.removeDynamic(changeDynamic)
	a.removeGroups(c.RemoveGroups)
	a.refresh(before, a.found.policies)
	a.note(c)
	a.addGroups(c.AddGroups)
	a.addPeers(c.AddPeers)
	a.addDynamic(c.AddDynamic)
	a.updatePeers(c.UpdatePeers)
}

// splitRemovals divides gone: leave are the elements that are only removed. change are the
// elements that are added again with changes.
func splitRemovals[T any, K comparable](gone, come []T, key func(T) K) (leave, change []T) {
	for _, g := range gone {
		if slices.ContainsFunc(come, func(c T) bool { return key(c) == key(g) }) {
			change = append(change, g)
		} else {
			leave = append(leave, g)
		}
	}
	return leave, change
}

func prefixOfDynamic(d peering.Dynamic) netip.Prefix { return d.Prefix }

// errWithheld says that a neighbor waits for the policies.
var errWithheld = errors.New("waits until the policies can be set (see the other problems)")

// withhold reports the neighbors that are not added or not changed because the policies
// cannot be set.
func (a *application) withhold(c peering.Changes) {
	for _, p := range c.AddPeers {
		a.problem(p.Path, reasonPending, fmt.Errorf("neighbor %s %w", p.Name(), errWithheld))
	}
	for _, d := range c.AddDynamic {
		a.problem(d.Path, reasonPending, fmt.Errorf("dynamic neighbors %v %w", d.Prefix, errWithheld))
	}
}

// note records changes that do not concern GoBGP.
func (a *application) note(c peering.Changes) {
	for _, g := range c.UpdateGroups {
		a.found.groups[g.Name] = g
	}
	for _, d := range c.UpdateDynamic {
		a.found.dynamic[d.Prefix] = d
	}
}

// whole returns the state with all parts.
func (f found) whole() peering.State {
	s := f.state()
	s.Global, s.Sets, s.Import, s.Export = f.global, f.sets, f.imports, f.exports
	return s
}

// state returns all parts but the policies, sorted.
func (f found) state() peering.State {
	var s peering.State
	for _, name := range slices.Sorted(maps.Keys(f.peers)) {
		s.Peers = append(s.Peers, f.peers[name].peer)
	}
	for _, name := range slices.Sorted(maps.Keys(f.groups)) {
		s.Groups = append(s.Groups, f.groups[name])
	}
	for _, prefix := range slices.SortedFunc(maps.Keys(f.dynamic), netip.Prefix.Compare) {
		s.Dynamic = append(s.Dynamic, f.dynamic[prefix])
	}
	return s
}
