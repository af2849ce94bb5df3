package groups

import (
	"maps"
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/addr"
)

// Group returns the group called name: the name of its object or its alias, with or without its
// namespace in front. A name without a namespace means the group in the install namespace. If there
// is none, the name means the only such group in other namespaces: see Ambiguous.
func (gs Groups) Group(name string) (Group, bool) {
	i, ok := gs.names().meant[name]
	if !ok {
		return Group{}, false
	}
	return gs.Usable[i], true
}

// Ambiguous returns the groups that name may mean, if there are several and none is in the install
// namespace. For such a name, Group returns none.
func (gs Groups) Ambiguous(name string) []string { return gs.names().ambiguous[name] }

// GroupOf returns the group and the pool that contain a. There is at most one, because usable
// groups do not overlap.
func (gs Groups) GroupOf(a netip.Addr) (Group, Pool, bool) {
	at, ok := gs.byAddr().Find(a.Unmap())
	if !ok {
		return Group{}, Pool{}, false
	}
	g := gs.Usable[at.group]
	return g, g.Pools[at.pool], true
}

// lookup finds groups, by their place in Groups.Usable.
type lookup struct {
	names  names
	byAddr addr.Index[place]
	// all are the usable and the refused groups.
	all []Group
}

// names finds groups by name.
type names struct {
	meant map[string]int
	// ambiguous are the groups that a name may mean, if there are several.
	ambiguous map[string][]string
}

// place is where a pool is in Groups.Usable.
type place struct{ group, pool int }

// names returns the names that New computed, or new ones for a Groups literal.
func (gs Groups) names() names {
	if gs.lookup != nil {
		return gs.lookup.names
	}
	return newNames(gs.Usable, gs.Usable)
}

// byAddr returns the index that New computed, or a new one for a Groups literal.
func (gs Groups) byAddr() addr.Index[place] {
	if gs.lookup != nil {
		return gs.lookup.byAddr
	}
	return newIndex(gs.Usable)
}

func newIndex(usable []Group) addr.Index[place] {
	var x addr.Index[place]
	for i, g := range usable {
		for j, p := range g.Pools {
			x.Add(p.Range, place{i, j})
		}
	}
	return x
}

// newNames returns the names of usable groups, which are a part of all. The name of a
// refused group means no group.
func newNames(usable, all []Group) names {
	n := names{meant: map[string]int{}, ambiguous: map[string][]string{}}
	places := make(map[string]int, len(usable))
	for i, g := range usable {
		places[g.Ref()] = i
	}
	for name, refs := range meanings(usable, all) {
		if i, ok := places[refs[0]]; ok && len(refs) == 1 {
			n.meant[name] = i
		} else if len(refs) > 1 {
			n.ambiguous[name] = refs
		}
	}
	return n
}

// meanings returns which groups a name may mean, by Ref, sorted. All groups have the name
// of their object, and usable groups also have their alias. A name with a namespace, and a
// name in the install namespace, means one group. A name takes precedence over an alias.
func meanings(usable, all []Group) map[string][]string {
	mean := map[string][]string{}
	for _, outside := range []bool{false, true} {
		taken := maps.Clone(mean)
		add := func(g Group, name string) {
			for _, name := range []string{name, g.Namespace + "/" + name} {
				if _, known := taken[name]; !known && !slices.Contains(mean[name], g.Ref()) {
					mean[name] = append(mean[name], g.Ref())
				}
			}
		}
		for _, g := range all {
			if g.Outside == outside {
				add(g, g.Name)
			}
		}
		if !outside {
			taken = maps.Clone(mean)
		}
		for _, g := range usable {
			if g.Outside == outside && g.Alias != "" {
				add(g, g.Alias)
			}
		}
	}
	for _, refs := range mean {
		slices.Sort(refs)
	}
	return mean
}
