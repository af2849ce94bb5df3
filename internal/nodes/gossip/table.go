package gossip

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"purelb.io/purelb/internal/nodes/detector"
	"purelb.io/purelb/internal/nodes/election"
)

// Member is the known state of the agent of a node.
type Member struct {
	election.Gossiped
	// Instance is the process that represents the node: the newest living process, or the
	// newest process if none is alive.
	Instance uint64
	// Address is the gossip address of the process.
	Address netip.AddrPort
}

// process is the known state of one agent process.
type process struct {
	id      identity
	peerID  detector.PeerID
	address netip.AddrPort
	record  election.Record
	// version is the highest version that both it and this process understand; 0 means
	// none.
	version byte
	// leaving means that the process announced its end. gone means that the library declared it
	// dead.
	leaving, gone bool
	// deadUntil is when a death by missed heartbeats expires. From then on only the
	// library decides. It is zero while no such death is in force.
	deadUntil time.Time
	// suspicion is the claim that it is dead, while it is neither believed nor refuted.
	suspicion suspicion
	// unheard is when the detector stopped knowing whether a peer hears it, or zero.
	unheard time.Time
}

func (p *process) state() election.State {
	switch {
	case p.leaving:
		return election.Left
	case p.gone || !p.deadUntil.IsZero():
		return election.Dead
	}
	return election.Alive
}

// table is the known state of the processes, and the state of the nodes that follows from
// it. It is not safe for concurrent use.
type table struct {
	processes map[string][]*process // by node
	nodes     map[string]Member
	// unheard is the number of unheard processes, and unheardSince is when the first of
	// them became unheard. lost is the last time at which missed heartbeats declared a
	// process dead.
	unheard            int
	unheardSince, lost time.Time
	// due is when settle has to run again.
	due time.Time
	// moved means that a process came, went or changed its state since the ring was last built.
	moved bool
}

func newTable() table {
	return table{processes: map[string][]*process{}, nodes: map[string]Member{}}
}

// hear records that the library heard id with the record s. It reports whether that changed
// the known state of the node.
func (t *table) hear(id identity, address netip.AddrPort, s said, now time.Time) bool {
	p := t.process(id)
	if p == nil {
		p = &process{id: id, peerID: id.peerID()}
		t.processes[id.node] = append(t.processes[id.node], p)
	}
	p.address, p.record, p.version, p.leaving, p.gone = address, s.Record, s.version, s.leaving, false
	t.moved = true
	if p.suspicion.confirmed {
		p.suspicion = suspicion{}
	}
	return t.judge(id.node, now)
}

// lose records that the library declared id dead. The table declares id dead at until, unless the
// library hears id before. If id announced that it leaves, the table does so at once.
func (t *table) lose(id identity, until, now time.Time) bool {
	p := t.process(id)
	if p == nil {
		return false
	}
	if until.After(now) && !p.leaving {
		t.doubt(p, until, true)
		return false
	}
	p.gone, p.deadUntil, p.suspicion, t.moved = true, time.Time{}, suspicion{}, true
	return t.judge(id.node, now)
}

// some returns up to n other living processes, chosen at random.
func (t *table) some(n int, self identity) (chosen []process) {
	seen := 0
	for _, all := range t.processes {
		for _, p := range all {
			if p.id == self || p.state() != election.Alive {
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
		Gossiped: election.Gossiped{Record: best.record, State: best.state(), Since: now},
		Instance: best.id.instance, Address: best.address,
	}
	m.Node = node
	if m.State == election.Alive && t.doubted() {
		m.Unheard = best.unheard
	}
	old, known := t.nodes[node]
	switch {
	case known && old.State == m.State:
		m.Since, m.Lost = old.Since, old.Lost
	case known && old.State == election.Dead && m.State == election.Alive:
		m.Lost = old.Since
	}
	// One process that is gone is enough.
	t.processes[node] = slices.DeleteFunc(t.processes[node], func(p *process) bool {
		return p != best && p.state() != election.Alive && p.gone
	})
	t.nodes[node] = m
	return !known || !reflect.DeepEqual(old, m)
}

// preference orders the processes of a node. The greatest process represents the node.
func preference(a, b *process) int {
	if a.state() == election.Alive || b.state() == election.Alive {
		if c := cmp.Compare(b.state(), a.state()); c != 0 {
			return c
		}
	}
	return cmp.Compare(a.id.instance, b.id.instance)
}

// forget drops the nodes that became Dead or Left earlier than before, and reports whether
// there were any. It keeps a process that the library still lists as alive, because the
// library will not report that process again.
func (t *table) forget(before time.Time) bool {
	n := len(t.nodes)
	for node, m := range t.nodes {
		held := slices.ContainsFunc(t.processes[node], func(p *process) bool { return !p.gone && !p.leaving })
		if m.State != election.Alive && m.Since.Before(before) && !held {
			delete(t.nodes, node)
			delete(t.processes, node)
		}
	}
	return len(t.nodes) < n
}

func (t *table) members() []Member {
	return slices.SortedFunc(maps.Values(t.nodes), func(a, b Member) int { return strings.Compare(a.Node, b.Node) })
}
