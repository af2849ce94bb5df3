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

// State is whether a node agent is alive.
type State int

// The states of a member.
const (
	Alive State = iota
	Dead        // it became silent
	Left        // it announced that it leaves
)

func (s State) String() string { return [...]string{"alive", "dead", "left"}[s] }

// Member is the known state of the agent of a node.
type Member struct {
	Node string
	// Instance is the process that represents the node: the newest living process, or the
	// newest process if none is alive.
	Instance uint64
	// Address is the gossip address of the process.
	Address netip.AddrPort
	// Record is the last record that it announced.
	Record Record
	State  State
	// Since is when this node saw State begin, by the clock of this node.
	Since time.Time
}

// process is the known state of one agent process.
type process struct {
	id      identity
	address netip.AddrPort
	record  Record
	// patience is the patience that the process publishes.
	patience time.Duration
	// version is the highest version that both it and this process understand; 0 means
	// none.
	version byte
	// leaving means that the process announced its end. gone means that it is dead.
	leaving, gone bool
	// dies is when a process that the library lost is dead, unless the library hears it before.
	// It is zero while the library hears the process. late means that this process did not run at
	// that time, and gave it more time.
	dies time.Time
	late bool
}

func (p *process) state() State {
	switch {
	case p.leaving:
		return Left
	case p.gone:
		return Dead
	}
	return Alive
}

// table is the known state of the processes, and the state of the nodes that follows from
// it. It is not safe for concurrent use.
type table struct {
	processes map[string][]*process // by node
	nodes     map[string]Member
	shown     []Member // the last result of members; nil after a change
	// patience is the longest of all living processes. It may be too long until the next
	// settle.
	patience time.Duration
}

func newTable() table {
	return table{processes: map[string][]*process{}, nodes: map[string]Member{}}
}

// hear records that the library heard id with the record s. It reports whether that changed
// the known state of the node.
func (t *table) hear(id identity, address netip.AddrPort, s said, now time.Time) bool {
	p := t.process(id)
	if p == nil {
		p = &process{id: id}
		t.processes[id.node] = append(t.processes[id.node], p)
	}
	p.address, p.record, p.version, p.leaving = address, s.Record, s.version, s.leaving
	p.gone, p.dies, p.late = false, time.Time{}, false
	p.patience, t.patience = s.patience, max(t.patience, s.patience)
	return t.judge(id.node, now)
}

// lose records that the library lost id. The table declares id dead at until, unless the library
// hears id before. If id announced that it leaves, the table does so at once.
func (t *table) lose(id identity, until, now time.Time) bool {
	p := t.process(id)
	if p == nil {
		return false
	}
	if until.After(now) && !p.leaving {
		p.dies = until
		return false
	}
	p.gone, p.dies = true, time.Time{}
	return t.judge(id.node, now)
}

const (
	// mostLate is the largest delay after which this process still declares another one dead at
	// once. After a longer delay it did not run, and has not read what the other one sent.
	mostLate = 50 * time.Millisecond
	// lateGrace is how long such a process reads waiting packets before it does so.
	lateGrace = 100 * time.Millisecond
)

// settled is the result of settle: the nodes whose state changed, the number of processes that
// got more time, and when settle has to run again.
type settled struct {
	changed []Member
	late    int
	next    time.Time
}

// settle declares dead the lost processes whose time is over.
func (t *table) settle(now time.Time) settled {
	s := settled{next: now.Add(pulse)}
	t.patience = 0
	for node, all := range t.processes {
		for _, p := range slices.Clone(all) { // judge may delete processes from the list
			switch {
			case p.dies.IsZero():
			case now.Before(p.dies):
			case !p.late && now.Sub(p.dies) > mostLate:
				p.dies, p.late = now.Add(lateGrace), true
				s.late++
			case t.lose(p.id, now, now):
				s.changed = append(s.changed, t.nodes[node])
			}
			if !p.dies.IsZero() && p.dies.Before(s.next) {
				s.next = p.dies
			}
			if p.state() == Alive {
				t.patience = max(t.patience, p.patience)
			}
		}
	}
	return s
}

// some returns up to n other living processes, chosen at random.
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

// judge computes the state of node from its processes, and reports whether it changed.
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
	// One process that is gone is enough.
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

// preference orders the processes of a node. The greatest process represents the node.
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
		a.Record.Draining == b.Record.Draining && a.Record.Truncated == b.Record.Truncated && a.Record.Digest == b.Record.Digest &&
		slices.Equal(a.Record.Subnets, b.Record.Subnets) && slices.Equal(a.Record.Own, b.Record.Own)
}

// forget drops the nodes that became Dead or Left earlier than before, and reports whether
// there were any. It keeps a process that the library still lists as alive, because the
// library will not report that process again.
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
