package gobgp

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/osrg/gobgp/v4/api"

	"purelb.io/purelb/internal/peering"
)

// policyPath is what a problem with all policies is about.
const policyPath = "spec.policyDefinitions"

// policies sets them all at once, and says whether GoBGP has them. The chains are
// had as a whole or not at all, as a statement that is left out may be the one
// that rejects: until they can be had, the last ones stay, and the first reject
// everything.
func (a *application) policies() (had bool) {
	next := policiesOf(a.wanted)
	if !a.sound() || !a.set(next, a.blame) {
		return false
	}
	a.found.sets, a.found.imports, a.found.exports, a.found.policies = a.wanted.Sets, a.wanted.Import, a.wanted.Export, next
	return true
}

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
	scratch := startEngine(a.log, newEvents(), a.patience)
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
