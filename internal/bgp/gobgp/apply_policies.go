package gobgp

import (
	"fmt"
	"net/netip"

	"github.com/osrg/gobgp/v4/api"

	"purelb.io/purelb/internal/bgp/peering"
)

// policyPath is the field of a problem with all policies. They follow from neighbors and ServiceGroups.
const policyPath = "spec.neighbors"

// policies sets all policies at once, and reports whether GoBGP accepted them. GoBGP sets all of
// them or none. If it refuses them, the previous policies stay in effect. The policies of a new
// server reject everything.
func (a *application) policies() (had bool) {
	next := policiesOf(a.wanted)
	if !next.equal(a.found.policies) {
		if err := a.engine.setPolicies(next); err != nil {
			a.problems = append(a.problems, peering.Problem{Field: policyPath, Reason: reasonRefused, Message: err.Error(), Policies: true})
			return false
		}
	}
	a.found.policies = next
	return true
}

// refresh applies the policies again to the routes of those neighbors for which they changed. had are the
// marks that routes had before: GoBGP sends all routes again, so there must be no refresh for a change that
// concerns no route that stays. A route that gets another mark needs one: GoBGP asks the new policies whether
// it has sent the route, and they know the former mark no more. After an error, the next Apply tries again.
func (a *application) refresh(before policies, had map[netip.Prefix][]string) {
	after := a.found.policies
	if before.equal(after) {
		return
	}
	marks := a.concerned(had)
	peers, err := a.engine.peers("", false)
	if err != nil {
		a.problem(policyPath, reasonRefused, err)
		a.found.policies = policies{}
		return
	}
	for _, p := range peers {
		address, err := netip.ParseAddr(p.GetState().GetNeighborAddress())
		if err != nil {
			continue
		}
		bare := address.WithZone("")
		for direction, changed := range map[api.ResetPeerRequest_Direction]bool{
			api.ResetPeerRequest_DIRECTION_IN:  before.imports.concerning(bare, marks, before.sets) != after.imports.concerning(bare, marks, after.sets),
			api.ResetPeerRequest_DIRECTION_OUT: before.exports.concerning(bare, marks, before.sets) != after.exports.concerning(bare, marks, after.sets),
		} {
			if !changed {
				continue
			}
			if err := a.engine.refresh(address, direction); err != nil {
				a.found.policies = policies{}
				a.problem(policyPath, reasonRefused, fmt.Errorf("apply policies to neighbor %v: %w", address, err))
			}
		}
	}
}
