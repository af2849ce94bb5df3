package gobgp

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"purelb.io/purelb/internal/peering"
)

// policies are all that GoBGP walks through: the chains of a State, and what it
// needs beside them. There is one policy for each direction, as GoBGP ignores
// those of single neighbours.
type policies struct {
	sets             []peering.Set
	imports, exports statements
}

type statements []peering.Statement

// policiesOf builds the policies of s.
//
// GoBGP sends also our own routes through the import policy, so they are let in
// first. Of a neighbour set without elements it believes that it holds everybody,
// so statements with one are settled here.
func policiesOf(s peering.State) policies {
	p := policies{sets: slices.DeleteFunc(slices.Clone(s.Sets), nobody)}
	p.imports = append(statements{{
		Name: "own routes", If: peering.Conditions{Origin: peering.Local},
		Then: peering.Actions{Verdict: peering.Accept},
	}}, chained(s.Import, s.Sets)...)
	p.exports = chained(s.Export, s.Sets)
	return p
}

func nobody(set peering.Set) bool {
	return set.Kind == peering.NeighborSet && len(set.List) == 0
}

// chained is c with its default as its last statement, so that it changes with
// the others, at once.
func chained(c peering.Chain, sets []peering.Set) statements {
	var out statements
	for _, st := range c.Statements {
		if ref := st.If.Neighbors; ref != nil && slices.ContainsFunc(sets, func(set peering.Set) bool {
			return nobody(set) && set.Name == ref.Name
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

// concerning is a text of all that the statements mean to one neighbour. It is
// the same as long as they mean the same.
func (s statements) concerning(neighbor netip.Addr, sets []peering.Set) string {
	var b strings.Builder
	write := json.NewEncoder(&b)
	for _, st := range s {
		if ref := st.If.Neighbors; ref != nil && !means(*ref, neighbor, sets) {
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

// means says whether a condition holds for a neighbour.
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

// refers says whether a condition of st is about set.
func refers(st peering.Statement, set peering.Set) bool {
	ref := map[peering.SetKind]*peering.SetRef{
		peering.PrefixSet: st.If.Prefixes, peering.NeighborSet: st.If.Neighbors, peering.ASPathSet: st.If.ASPaths,
		peering.CommunitySet: st.If.Communities, peering.LargeCommunitySet: st.If.LargeCommunities,
	}[set.Kind]
	return ref != nil && ref.Name == set.Name
}
