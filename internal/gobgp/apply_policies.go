package gobgp

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/osrg/gobgp/v4/api"

	"purelb.io/purelb/internal/peering"
)

// policyPath is the field of a problem with all policies.
const policyPath = "spec.policyDefinitions"

// policies sets all policies at once, and reports whether GoBGP has them. It sets the chains
// completely or not at all, because a statement that is left out may be the one that rejects.
// Until they can be set, the last chains stay. The first chains reject everything.
func (a *application) policies() (had bool) {
	next, n := policiesOf(a.wanted), len(a.problems)
	if !a.sound() || !a.set(next, a.blame) {
		for i := range a.problems[n:] {
			a.problems[n+i].Policies = true
		}
		return false
	}
	a.found.sets, a.found.imports, a.found.exports, a.found.policies = a.wanted.Sets, a.wanted.Import, a.wanted.Export, next
	return true
}

// sound finds mistakes that GoBGP would accept and not carry out.
func (a *application) sound() bool {
	n := len(a.problems)
	for _, st := range slices.Concat(a.wanted.Import.Statements, a.wanted.Export.Statements) {
		if err := checkStatement(st); err != nil {
			a.problem(st.Path, reasonInvalid, fmt.Errorf("statement %s: %w", st.Name, err))
		}
	}
	return len(a.problems) == n
}

// set reports whether GoBGP has p now.
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

// refresh applies the policies again to the routes of those neighbors for which they changed.
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

// blame finds the mistake in policies that GoBGP refuses. It gives every statement by itself
// to a second server.
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
