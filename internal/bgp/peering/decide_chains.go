package peering

import (
	"cmp"
	"slices"
	"strings"

	"purelb.io/purelb/internal/addr"
)

// chains builds both chains from what was read, and sorts the State.
func (r *reader) chains() {
	all := r.appliedToAll()
	slices.SortFunc(r.members, func(a, b member) int { return cmp.Compare(a.Name(), b.Name()) })
	r.d.State.Import = Chain{
		Statements: slices.Concat(
			r.ownRoutes(),
			r.forSome("import", func(a application) assignment { return a.imports }),
			r.forAll("import", all.imports),
		),
		Default: all.imports.rest,
	}
	if all.imports.rest == Continue && !r.consumes() {
		r.d.State.Import.Default = Reject
	}
	r.d.State.Import.Default = otherwise(r.d.State.Import.Default)
	r.d.State.Export = Chain{
		Statements: slices.Concat(
			r.restricted(),
			transit(),
			r.hops(),
			r.forSome("export", func(a application) assignment { return a.exports }),
			r.forAll("export", all.exports),
		),
		Default: otherwise(all.exports.rest),
	}
	if r.node.Draining {
		keepDrained(r.d.State.Export)
	}
	r.d.State.nameApart()
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

// otherwise returns the verdict on routes that no statement decides.
func otherwise(v Verdict) Verdict {
	if v == Continue {
		return Accept
	}
	return v
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
	for {
		i := slices.IndexFunc(r.d.State.Sets, func(e Set) bool { return e.Kind == NeighborSet && e.Name == s.Name })
		switch {
		case i < 0:
			r.d.State.Sets = append(r.d.State.Sets, s)
			return &SetRef{Name: s.Name, Match: Any}
		case slices.Equal(r.d.State.Sets[i].List, s.List):
			return &SetRef{Name: s.Name, Match: Any}
		}
		s.Name += "'" // two statements may get one name: see nameApart
	}
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
			Then: Actions{Verdict: Reject}, Path: m.Path,
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
			Then: Actions{NextHop: hop}, Path: m.Path,
		}
		if m.interior() {
			s.If.Origin = Local
		}
		all = append(all, s)
	}
	return all
}

// forAll returns the statements of policies for all neighbors.
func (r *reader) forAll(direction string, a assignment) []Statement {
	var all []Statement
	for _, name := range a.policies {
		for _, s := range r.policies[name].statements {
			s.Name = direction + " " + s.Name
			all = append(all, s)
		}
	}
	return all
}

// forSome returns the statements of the neighbors' own policies, once for all neighbors with
// the same policies.
func (r *reader) forSome(direction string, of func(application) assignment) []Statement {
	var keys []string
	who := make(map[string]neighborSet)
	what := make(map[string]assignment)
	for _, m := range r.members {
		a := of(m.policies)
		if a.empty() {
			continue
		}
		key := a.key()
		if _, there := who[key]; !there {
			keys = append(keys, key)
		}
		who[key], what[key] = who[key].plus(m.set()), a
	}
	slices.Sort(keys)
	var all []Statement
	for _, key := range keys {
		all = append(all, r.forThese(direction+" "+key, who[key], what[key])...)
	}
	return all
}

// forThese returns the statements of policies for some neighbors. If a statement itself
// selects neighbors, it is for the neighbors in both sets.
func (r *reader) forThese(name string, these neighborSet, a assignment) []Statement {
	var all []Statement
	for _, policy := range a.policies {
		for _, s := range r.policies[policy].statements {
			s.Name = reserved + name + " " + s.Name
			s.If.Neighbors = r.among(name, these, s)
			if s.If.Neighbors != nil {
				all = append(all, s)
			}
		}
	}
	if who := r.set(name, these); who != nil && a.rest != Continue {
		all = append(all, Statement{Name: reserved + name + " rest", If: Conditions{Neighbors: who}, Then: Actions{Verdict: a.rest}})
	}
	return all
}

// among returns the set of the neighbors in these that the statement selects.
func (r *reader) among(name string, these neighborSet, s Statement) *SetRef {
	ref := s.If.Neighbors
	if ref == nil {
		return r.set(name, these)
	}
	written := neighborSetOf(r.sets[setKey{NeighborSet, ref.Name}].List)
	if ref.Match == Invert {
		return r.set(strings.TrimPrefix(s.Name, reserved), these.without(written))
	}
	return r.set(strings.TrimPrefix(s.Name, reserved), these.in(written))
}

// nameApart gives every statement a unique name. Two statements may have the name "a/b": the
// statement b of policy a, and a statement without a name of policy "a/b".
func (s *State) nameApart() {
	used := make(map[string]bool)
	for _, chain := range []Chain{s.Import, s.Export} {
		for i := range chain.Statements {
			name := &chain.Statements[i].Name
			for used[*name] {
				*name += "'"
			}
			used[*name] = true
		}
	}
}

// sort sorts everything but the statements, whose order matters. So the result does not
// depend on the order in the configuration.
func (s *State) sort() {
	slices.SortFunc(s.Peers, func(a, b Peer) int { return cmp.Compare(a.Name(), b.Name()) })
	slices.SortFunc(s.Sets, func(a, b Set) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
}
