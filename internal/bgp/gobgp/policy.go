package gobgp

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"purelb.io/purelb/internal/bgp/peering"
)

// policies are all policies of GoBGP: the chains of a State, and the sets that they need.
// There is one policy for each direction, because GoBGP ignores policies of single neighbors.
type policies struct {
	sets             []peering.Set
	imports, exports statements
}

type statements []peering.Statement

// policiesOf builds the policies of s.
//
// GoBGP also sends our own routes through the import policy, so the policy first accepts
// them. GoBGP reads a neighbor set without elements as a set of all neighbors, so policiesOf
// resolves statements with such a set.
func policiesOf(s peering.State) policies {
	p := policies{sets: slices.DeleteFunc(slices.Clone(s.Sets), isEmpty)}
	p.imports = append(statements{{
		Name: "own routes", If: peering.Conditions{Origin: peering.Local},
		Then: peering.Actions{Verdict: peering.Accept},
	}}, chained(s.Import, s.Sets)...)
	p.exports = chained(s.Export, s.Sets)
	return p
}

func isEmpty(set peering.Set) bool {
	return set.Kind == peering.NeighborSet && len(set.List) == 0
}

// chained returns c with its default as its last statement, so that the default changes
// together with the statements.
func chained(c peering.Chain, sets []peering.Set) statements {
	var out statements
	for _, st := range c.Statements {
		if ref := st.If.Neighbors; ref != nil && slices.ContainsFunc(sets, func(set peering.Set) bool {
			return isEmpty(set) && set.Name == ref.Name
		}) {
			if ref.Match != peering.Invert {
				continue
			}
			st.If.Neighbors = nil
		}
		out = append(out, st)
	}
	last := peering.Statement{Name: "default", Then: peering.Actions{Verdict: peering.Reject}}
	if c.Default == peering.Accept {
		last.Then.Verdict = peering.Accept
	}
	return append(out, last)
}

func (p policies) equal(other policies) bool { return reflect.DeepEqual(p, other) }

// concerning returns a text of everything that the statements mean for routes with these marks and one
// neighbor. Equal texts mean equal policies.
func (s statements) concerning(neighbor netip.Addr, marks map[string]bool, sets []peering.Set) string {
	var b strings.Builder
	write := json.NewEncoder(&b)
	for _, st := range s {
		if ref := st.If.Neighbors; ref != nil && !means(*ref, neighbor, sets) {
			continue
		}
		if st.If.LargeCommunities != nil && !slices.ContainsFunc(sets, func(set peering.Set) bool {
			return set.Kind == peering.LargeCommunitySet && refers(st, set) && slices.ContainsFunc(set.List, func(mark string) bool { return marks[mark] })
		}) {
			continue
		}
		_ = write.Encode(st) // a value of plain fields into memory
		for _, set := range sets {
			if set.Kind != peering.NeighborSet && refers(st, set) {
				_ = write.Encode(set)
			}
		}
	}
	return b.String()
}

// means reports whether a condition is true for a neighbor.
func means(ref peering.SetRef, neighbor netip.Addr, sets []peering.Set) bool {
	member := slices.ContainsFunc(sets, func(set peering.Set) bool {
		return set.Kind == peering.NeighborSet && set.Name == ref.Name && slices.ContainsFunc(set.List, func(text string) bool {
			p, err := netip.ParsePrefix(text)
			if err != nil {
				a, _ := netip.ParseAddr(text)
				return a == neighbor
			}
			return p.Contains(neighbor)
		})
	})
	return member != (ref.Match == peering.Invert)
}

// refers reports whether a condition of st uses set.
func refers(st peering.Statement, set peering.Set) bool {
	ref := map[peering.SetKind]*peering.SetRef{
		peering.PrefixSet: st.If.Prefixes, peering.NeighborSet: st.If.Neighbors, peering.LargeCommunitySet: st.If.LargeCommunities,
	}[set.Kind]
	return ref != nil && ref.Name == set.Name
}
