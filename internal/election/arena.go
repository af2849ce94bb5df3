package election

import (
	"net/netip"
	"slices"
)

// Contests remembers the winner of each address from View to View. Finding a winner takes one hash
// per candidate. Contests changes only the speed of an answer, never the answer itself. The zero
// Contests is empty.
//
// Only one goroutine may use a Contests and its Views. A Contests forgets an address that was not
// looked up in the last View.
type Contests struct{ steady, draining map[netip.Prefix]*arena }

// View returns the View of members. On a nil Contests it is the same as NewView.
func (c *Contests) View(members []Member) View {
	v := NewView(members)
	if c != nil {
		c.steady = v.steady.remember(c.steady)
		c.draining = v.draining.remember(c.draining)
	}
	return v
}

// remember makes the arenas of f remember winners, and returns them. It copies the winners of
// before, the arenas of the previous View.
func (f candidateSet) remember(before map[netip.Prefix]*arena) map[netip.Prefix]*arena {
	for network, a := range f.arenas.values {
		if len(a.nodes) > forgetful {
			a.won = map[netip.Addr]ranking{}
			a.learn(before[network])
		}
	}
	return f.arenas.values
}

// forgetful is the largest number of candidates for which computing the winner again is not slower
// than remembering it.
const forgetful = 16

// arena is the set of nodes of one network, and the winners of its addresses.
type arena struct {
	nodes []string
	// won are rankings among all nodes. It is nil if this arena remembers none.
	won map[netip.Addr]ranking
	// earlier are rankings of the previous View. Since then, the nodes in gone have left, and
	// newcomers have joined.
	earlier   map[netip.Addr]ranking
	gone      map[string]bool
	newcomers []string
}

// learn copies the rankings of before, the arena of the same network in the
// previous View.
func (a *arena) learn(before *arena) {
	if before == nil || before.won == nil {
		return
	}
	a.earlier = before.won
	if slices.Equal(a.nodes, before.nodes) {
		return
	}
	a.gone = make(map[string]bool, len(before.nodes))
	for _, node := range before.nodes {
		a.gone[node] = true
	}
	for _, node := range a.nodes {
		if !a.gone[node] {
			a.newcomers = append(a.newcomers, node)
		}
	}
	for _, node := range a.nodes {
		delete(a.gone, node)
	}
}

// ranking returns the ranking for ip among all nodes.
func (a *arena) ranking(ip netip.Addr) ranking {
	if c, ok := a.won[ip]; ok {
		return c
	}
	c, known := a.earlier[ip]
	entrants := a.newcomers
	if !known || a.gone[c.winner] {
		c, entrants = rankingFor(ip), a.nodes
	}
	for _, node := range entrants {
		c.enter(node)
	}
	if a.won != nil {
		a.won[ip] = c
	}
	return c
}
