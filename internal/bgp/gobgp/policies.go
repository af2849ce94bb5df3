package gobgp

import (
	"fmt"
	"net/netip"
	"reflect"

	"github.com/osrg/gobgp/v4/api"

	"purelb.io/purelb/internal/bgp/peering"
)

// policies are what the policies of GoBGP say. There is one policy for each direction, because GoBGP ignores
// policies of single neighbors.
type policies struct {
	imports   imports
	neighbors []neighbor
}

// imports says which routes the node takes from its neighbors: all but its own, or none.
type imports struct {
	learns bool
	own    []peering.PrefixRange
}

// neighbor is what an address gets. GoBGP compares addresses without their interface.
type neighbor struct {
	address netip.Addr
	asn     uint32
	peering.Policy
}

func policiesOf(s peering.State) policies {
	p := policies{imports: imports{s.Learns, s.Own}}
	for _, n := range s.Peers {
		p.neighbors = append(p.neighbors, neighbor{n.Address.WithZone(""), n.LocalASN, n.Policy})
	}
	return p
}

func (p policies) equal(other policies) bool { return reflect.DeepEqual(p, other) }

// concerning returns what an address gets of the routes with these marks.
func (p policies) concerning(address netip.Addr, marks map[string]bool) []neighbor {
	var all []neighbor
	for _, n := range p.neighbors {
		if n.address != address.WithZone("") {
			continue
		}
		groups, overrides := []string{}, map[string]peering.Override{}
		for _, group := range n.Groups {
			if marks[peering.MarkOf(group)] {
				groups = append(groups, group)
			}
		}
		for mark, o := range n.Overrides {
			if marks[mark] {
				overrides[mark] = o
			}
		}
		n.Groups, n.Overrides = groups, overrides
		all = append(all, n)
	}
	return all
}

// policyPath is the field of a problem with all policies. They follow from neighbors and ServiceGroups.
const policyPath = "spec.neighbors"

// policies sets all policies at once. GoBGP sets all of them or none. If it refuses them, the previous
// policies stay in effect.
func (a *application) policies() error {
	next := policiesOf(a.wanted)
	if !next.equal(a.found.policies) {
		if err := a.engine.setPolicies(next); err != nil {
			return fmt.Errorf("set the policies: %w", err)
		}
	}
	a.found.policies = next
	return nil
}

// refresh applies the policies again to the routes of those neighbors for which they changed. had are the
// routes before: GoBGP sends all routes again, so there must be no refresh for a change that
// concerns no route that stays. A route that gets another mark needs one: GoBGP asks the new policies whether
// it has sent the route, and they know the former mark no more. After an error, the next Apply tries again.
func (a *application) refresh(before policies, had map[netip.Prefix]peering.Route) {
	after := a.found.policies
	if before.equal(after) {
		return
	}
	marks := a.concerned(had)
	peers, err := a.engine.peers("", false)
	if err != nil {
		a.problem(policyPath, err)
		a.found.policies = policies{}
		return
	}
	for _, p := range peers {
		address, err := netip.ParseAddr(p.GetState().GetNeighborAddress())
		if err != nil {
			continue
		}
		for direction, changed := range map[api.ResetPeerRequest_Direction]bool{
			api.ResetPeerRequest_DIRECTION_IN:  !reflect.DeepEqual(before.imports, after.imports),
			api.ResetPeerRequest_DIRECTION_OUT: !reflect.DeepEqual(before.concerning(address, marks), after.concerning(address, marks)),
		} {
			if !changed {
				continue
			}
			if err := a.engine.refresh(address, direction); err != nil {
				a.found.policies = policies{}
				a.problem(policyPath, fmt.Errorf("apply policies to neighbor %v: %w", address, err))
			}
		}
	}
}
