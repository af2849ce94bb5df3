package election

import (
	"net/netip"
	"slices"
)

// Contests remembers from View to View which node has won which address, because to
// find that out takes a hash for every candidate. It changes how long an answer takes,
// never the answer. The zero Contests remembers nothing yet.
//
// A Contests and its Views belong to one goroutine. What the last View was not asked
// for is forgotten.
type Contests struct{ steady, draining map[netip.Prefix]*arena }

// View returns the View of members. On a nil Contests it is NewView.
func (c *Contests) View(members []Member) View {
	v := NewView(members)
	if c != nil {
		c.steady = v.steady.remember(c.steady)
		c.draining = v.draining.remember(c.draining)
	}
	return v
}

// remember makes the arenas of f remember winners, and fills them from those before. It
// returns the arenas of f.
func (f field) remember(before map[netip.Prefix]*arena) map[netip.Prefix]*arena {
	for network, a := range f.arenas.values {
		if len(a.nodes) > forgetful {
			a.won = map[netip.Addr]contest{}
			a.learn(before[network])
		}
	}
	return f.arenas.values
}

// forgetful is the number of candidates up to which asking them again costs no more
// than to remember.
const forgetful = 16

// arena is where the nodes of one network contend for its addresses.
type arena struct {
	nodes []string
	// won are contests in which all nodes took part. It is nil if none is remembered.
	won map[netip.Addr]contest
	// earlier are contests of the View before this one. Its nodes were the same but for
	// those that are gone since, and the newcomers.
	earlier   map[netip.Addr]contest
	gone      map[string]bool
	newcomers []string
}

// learn has a know what the arena knows that was there before.
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

// contest returns the contest for ip among all nodes.
func (a *arena) contest(ip netip.Addr) contest {
	if c, ok := a.won[ip]; ok {
		return c
	}
	c, known := a.earlier[ip]
	entrants := a.newcomers
	if !known || a.gone[c.winner] {
		c, entrants = contestFor(ip), a.nodes
	}
	for _, node := range entrants {
		c.enter(node)
	}
	if a.won != nil {
		a.won[ip] = c
	}
	return c
}
