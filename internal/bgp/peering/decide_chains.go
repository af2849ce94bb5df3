package peering

import (
	"cmp"
	"slices"

	"purelb.io/purelb/internal/addr"
)

// reserved is the prefix of the names of statements and sets.
const reserved = "purelb:"

// chains builds both chains from what was read, and sorts the State.
func (r *reader) chains() {
	slices.SortFunc(r.members, func(a, b member) int { return cmp.Compare(a.Name(), b.Name()) })
	r.d.State.Import = Chain{Default: Reject}
	if r.consumes() {
		r.d.State.Import = Chain{Statements: r.ownRoutes(), Default: Accept}
	}
	r.d.State.Export = Chain{Statements: slices.Concat(r.restricted(), transit(), r.hops()), Default: Accept}
	r.d.State.sort()
}

// consumes reports whether the kernel uses learned routes. If not, the node
// learns no routes. Routes that a router announces by mistake would use memory, and could replace
// the node's own routes.
func (r *reader) consumes() bool {
	return len(r.d.Export) > 0
}

// ownRoutes rejects prefixes of this cluster that neighbors announce. Within the node's own
// AS such a route may have a higher local preference than the node's own route, and then
// GoBGP would withdraw the node's own route.
func (r *reader) ownRoutes() []Statement {
	var all []Statement
	for _, f := range []addr.Family{addr.V4, addr.V6} {
		set := Set{Kind: PrefixSet, Name: reserved + "pools " + f.String(), Family: f}
		for _, p := range r.node.Own {
			if addr.FamilyOf(p.Prefix.Addr()) == f {
				set.Prefixes = append(set.Prefixes, p)
			}
		}
		if len(set.Prefixes) == 0 {
			continue
		}
		r.d.State.Sets = append(r.d.State.Sets, set)
		all = append(all, Statement{
			Name: reserved + "pools " + f.String(),
			If:   Conditions{Prefixes: &SetRef{Name: set.Name, Match: Any}},
			Then: Actions{Verdict: Reject},
		})
	}
	return all
}

// set returns the set with one neighbor.
func (p Peer) set() neighborSet {
	if p.Interface != "" {
		return neighborSet{interfaces: []string{p.Interface}}
	}
	return host(p.Address)
}

// set adds a set of neighbors that a statement can refer to. It returns nil for an empty set.
func (r *reader) set(name string, c neighborSet) *SetRef {
	if c.empty() {
		return nil
	}
	s := Set{Kind: NeighborSet, Name: reserved + name, List: c.list()}
	r.d.State.Sets = append(r.d.State.Sets, s)
	return &SetRef{Name: s.Name, Match: Any}
}

// transit prevents that a route learned from one neighbor is announced to others.
func transit() []Statement {
	return []Statement{
		{Name: reserved + "transit external", If: Conditions{Origin: External}, Then: Actions{Verdict: Reject}},
		{Name: reserved + "transit internal", If: Conditions{Origin: Internal}, Then: Actions{Verdict: Reject}},
	}
}

// hops sets the next hops of routes of the other family, or rejects routes that have none. It does
// not change the next hops of learned routes within the node's own AS.
func (r *reader) hops() []Statement {
	var all []Statement
	for _, m := range r.members {
		if len(m.Mute) == 0 && len(m.NextHops) == 0 {
			continue
		}
		if who := r.set("neighbor "+m.Name(), m.set()); who != nil {
			all = append(all, m.hops(who)...)
		}
	}
	return all
}

// hops returns the statements about the other family for one member.
func (m member) hops(who *SetRef) []Statement {
	var all []Statement
	for _, f := range m.Mute {
		all = append(all, Statement{
			Name: reserved + "mute " + f.String() + " to " + m.Name(),
			If:   Conditions{Neighbors: who, Families: []addr.Family{f}},
			Then: Actions{Verdict: Reject},
		})
	}
	for _, f := range []addr.Family{addr.V4, addr.V6} {
		hop, ok := m.NextHops[f]
		if !ok {
			continue
		}
		s := Statement{
			Name: reserved + "next hop for " + f.String() + " to " + m.Name(),
			If:   Conditions{Neighbors: who, Families: []addr.Family{f}},
			Then: Actions{NextHop: hop},
		}
		if m.interior() {
			s.If.Origin = Local
		}
		all = append(all, s)
	}
	return all
}

// sort sorts everything but the statements, whose order matters. So the result does not
// depend on the order in the configuration.
func (s *State) sort() {
	slices.SortFunc(s.Peers, func(a, b Peer) int { return cmp.Compare(a.Name(), b.Name()) })
	slices.SortFunc(s.Sets, func(a, b Set) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
}
