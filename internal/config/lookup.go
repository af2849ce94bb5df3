package config

import (
	"net/netip"
	"slices"
	"sort"

	"k8s.io/apimachinery/pkg/labels"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/pool"
)

// Group returns the group that is called name, by its object's name or by its
// alias.
func (c Config) Group(name string) (Group, bool) {
	i, ok := c.lookups().byName[name]
	if !ok {
		return Group{}, false
	}
	return c.Groups[i], true
}

// GroupOf returns the group and the pool that contain a. Accepted groups do
// not overlap, so there is one at most.
func (c Config) GroupOf(a netip.Addr) (Group, pool.Pool, bool) {
	e, ok := c.lookups().byAddr.find(a.Unmap())
	if !ok {
		return Group{}, pool.Pool{}, false
	}
	g := c.Groups[e.group]
	return g, g.Pools[e.pool], true
}

// AgentFor returns the Agent in force on a node with these labels: the first
// that selects it. It is false when none does, and when the one in force is
// broken.
func (c Config) AgentFor(node map[string]string) (Agent, bool) {
	agent, ok := first(c.Agents, node)
	if broken, bad := first(c.Broken, node); bad && (!ok || precedence(broken, agent) < 0) {
		return Agent{}, false
	}
	return agent, ok
}

// BrokenFor returns the Agent that would be in force on a node with these
// labels if it could be used. Its name and selector are all that is certain of
// it. Such a node does not fall back to another Agent: a slip of the pen must
// not move what it announces to other interfaces.
func (c Config) BrokenFor(node map[string]string) (Agent, bool) {
	broken, bad := first(c.Broken, node)
	if agent, ok := first(c.Agents, node); ok && bad && precedence(agent, broken) < 0 {
		return Agent{}, false
	}
	return broken, bad
}

func first(agents []Agent, node map[string]string) (Agent, bool) {
	for _, a := range agents {
		if a.Selector.Matches(labels.Set(node)) {
			return a, true
		}
	}
	return Agent{}, false
}

// lookup finds groups, by their place in Config.Groups.
type lookup struct {
	byName map[string]int
	byAddr index
}

// lookups are those that For made, or new ones for a Config made by hand.
func (c Config) lookups() *lookup {
	if c.lookup != nil {
		return c.lookup
	}
	return newLookup(c.Groups)
}

func newLookup(groups []Group) *lookup {
	l := &lookup{byName: map[string]int{}}
	for i, g := range groups {
		if g.Alias != "" {
			l.byName[g.Alias] = i
		}
		for j, p := range g.Pools {
			l.byAddr = append(l.byAddr, entry{p.Range, i, j})
		}
	}
	slices.SortFunc(l.byAddr, func(a, b entry) int { return a.From.Compare(b.From) })
	for i, g := range groups { // names win over aliases
		l.byName[g.Name] = i
	}
	return l
}

// index finds ranges by address. Its entries do not overlap and are sorted.
type index []entry

type entry struct {
	addr.Range
	group, pool int
}

// with is x with the pools of a group.
func (x index) with(group int, pools []pool.Pool) index {
	for i, p := range pools {
		x = x.add(entry{p.Range, group, i})
	}
	return x
}

// add is x with e, which must not overlap with anything in it.
func (x index) add(e entry) index { return slices.Insert(x, x.until(e.From), e) }

// until is how many entries begin at or before a.
func (x index) until(a netip.Addr) int {
	return sort.Search(len(x), func(i int) bool { return a.Less(x[i].From) })
}

// find returns the entry that contains a.
func (x index) find(a netip.Addr) (entry, bool) {
	i := x.until(a)
	if i == 0 || !x[i-1].Contains(a) {
		return entry{}, false
	}
	return x[i-1], true
}

// overlapping returns the last entry that has an address in common with r.
func (x index) overlapping(r addr.Range) (entry, bool) {
	i := x.until(r.To)
	if i == 0 || !x[i-1].Overlaps(r) {
		return entry{}, false
	}
	return x[i-1], true
}
