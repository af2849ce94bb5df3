package gossip

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// State is whether a node agent is there.
type State int

// The states of a member.
const (
	Alive State = iota
	Dead        // it fell silent
	Left        // it said goodbye
)

func (s State) String() string { return [...]string{"alive", "dead", "left"}[s] }

// Member is what is known of the agent of a node.
type Member struct {
	Node string
	// Instance is the process, the newest of the node's that is alive.
	Instance uint64
	// Address is where it gossips.
	Address netip.AddrPort
	// Record is what it said last.
	Record Record
	State  State
	// Since is when this node saw State begin, by its own clock.
	Since time.Time
}

// process is what is known of one agent.
type process struct {
	id      identity
	mark    mark
	address netip.AddrPort
	record  Record
	// version is the highest one that it and we understand, 0 is none.
	version byte
	// leaving says that it has said goodbye, gone that the library takes it for
	// dead, and beats that it promises to beat.
	leaving, gone, beats bool
	// silent is until when its silence is believed: by then the library knows
	// better. Zero is not at all.
	silent time.Time
}

func (p *process) state() State {
	switch {
	case p.leaving:
		return Left
	case p.gone || !p.silent.IsZero():
		return Dead
	}
	return Alive
}

// table is what is known of the processes, and of the nodes because of them. It
// is not safe for concurrent use.
type table struct {
	processes map[string][]*process // by node
	nodes     map[string]Member
	// doubts are the processes said to be gone.
	doubts map[identity]doubt
	shown  []Member // what members last returned; nil after a change
	// moved says that the circle is not what it was.
	moved bool
}

func newTable() table {
	return table{processes: map[string][]*process{}, nodes: map[string]Member{}, doubts: map[identity]doubt{}}
}

// hear notes that id was heard, and what it said. It says whether that changed
// what is known of its node.
func (t *table) hear(id identity, address netip.AddrPort, s said, now time.Time) bool {
	p := t.process(id)
	if p == nil {
		p = &process{id: id, mark: id.mark()}
		t.processes[id.node] = append(t.processes[id.node], p)
	}
	p.address, p.record, p.version, p.leaving, p.beats, p.gone = address, s.Record, s.version, s.leaving, s.beats, false
	t.moved = true
	if t.doubts[id].library {
		delete(t.doubts, id)
	}
	return t.judge(id.node, now)
}

// lose notes that id is not heard any more, which is to be believed at believe
// unless it is heard before.
func (t *table) lose(id identity, believe, now time.Time) bool {
	p := t.process(id)
	if p == nil {
		delete(t.doubts, id)
		return false
	}
	if believe.After(now) && !p.leaving {
		t.doubt(id, doubt{believe: believe, library: true})
		return false
	}
	p.gone, p.silent, t.moved = true, time.Time{}, true
	delete(t.doubts, id)
	return t.judge(id.node, now)
}

// some returns n of the others that may be there, by chance.
func (t *table) some(n int, self identity) (chosen []process) {
	seen := 0
	for _, all := range t.processes {
		for _, p := range all {
			if p.id == self || p.state() != Alive {
				continue
			}
			seen++
			if len(chosen) < n {
				chosen = append(chosen, *p)
			} else if i := rand.IntN(seen); i < n {
				chosen[i] = *p
			}
		}
	}
	return chosen
}

func (t *table) process(id identity) *process {
	for _, p := range t.processes[id.node] {
		if p.id == id {
			return p
		}
	}
	return nil
}

// judge brings what is known of node up to date with its processes, and says
// whether that changed it.
func (t *table) judge(node string, now time.Time) bool {
	best := slices.MaxFunc(t.processes[node], preference)
	m := Member{
		Node: node, Instance: best.id.instance, Address: best.address,
		Record: best.record, State: best.state(), Since: now,
	}
	old, known := t.nodes[node]
	if known && old.State == m.State {
		m.Since = old.Since
	}
	// Of those that are gone one is enough to remember.
	t.processes[node] = slices.DeleteFunc(t.processes[node], func(p *process) bool {
		return p != best && p.state() != Alive && p.gone
	})
	t.nodes[node] = m
	if known && same(old, m) {
		return false
	}
	t.shown = nil
	return true
}

// preference orders the processes of a node by who speaks for it.
func preference(a, b *process) int {
	if a.state() == Alive || b.state() == Alive {
		if c := cmp.Compare(b.state(), a.state()); c != 0 {
			return c
		}
	}
	return cmp.Compare(a.id.instance, b.id.instance)
}

func same(a, b Member) bool {
	return a.Instance == b.Instance && a.Address == b.Address && a.State == b.State &&
		a.Record.Draining == b.Record.Draining && a.Record.Truncated == b.Record.Truncated &&
		slices.Equal(a.Record.Subnets, b.Record.Subnets) && slices.Equal(a.Record.Own, b.Record.Own)
}

// forget drops the nodes that have been dead or away since before, and says
// whether there were any. Whom the library takes for alive it will not tell us of
// again.
func (t *table) forget(before time.Time) bool {
	n := len(t.nodes)
	for node, m := range t.nodes {
		held := slices.ContainsFunc(t.processes[node], func(p *process) bool { return !p.gone && !p.leaving })
		if m.State != Alive && m.Since.Before(before) && !held {
			delete(t.nodes, node)
			delete(t.processes, node)
			t.shown = nil
		}
	}
	return len(t.nodes) < n
}

func (t *table) members() []Member {
	if t.shown == nil {
		t.shown = slices.SortedFunc(maps.Values(t.nodes), func(a, b Member) int { return strings.Compare(a.Node, b.Node) })
	}
	return t.shown
}
