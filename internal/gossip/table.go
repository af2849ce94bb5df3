package gossip

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"

	"purelb.io/purelb/internal/detector"
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
	// Unheard is zero, unless the member is Alive and this process does not know
	// whether anybody hears it: then it is since when. Others were lost at the same
	// time, and perhaps the fault is on this side.
	Unheard time.Time
}

// process is what is known of one agent.
type process struct {
	id      identity
	peerID  detector.PeerID
	address netip.AddrPort
	record  Record
	// patience is the process' own.
	patience time.Duration
	// version is the highest that it and this process understand, 0 is none.
	version byte
	// leaving says that it has said goodbye, gone that the library takes it for
	// dead, and beats that it promises heartbeats.
	leaving, gone, beats bool
	// silentUntil is until when the missed heartbeats make it dead: by then the
	// library knows better. It is zero while none are missed.
	silentUntil time.Time
	// unheard is since when the detector does not know whether it is heard, or zero.
	unheard time.Time
}

func (p *process) state() State {
	switch {
	case p.leaving:
		return Left
	case p.gone || !p.silentUntil.IsZero():
		return Dead
	}
	return Alive
}

// table is what is known of the processes, and of the nodes because of them. It
// is not safe for concurrent use.
type table struct {
	processes map[string][]*process // by node
	nodes     map[string]Member
	// suspicions are of the processes said to be dead.
	suspicions detector.Suspicions[identity]
	shown      []Member // what members last returned; nil after a change
	// patience is the longest of all living processes, or longer until settle.
	patience time.Duration
	// unheard is how many processes are unheard, since when, and lost is when a
	// silent process was last taken for dead.
	unheard            int
	unheardSince, lost time.Time
	// moved says that the ring is not what it was.
	moved bool
}

func newTable() table {
	return table{processes: map[string][]*process{}, nodes: map[string]Member{}, suspicions: detector.NewSuspicions[identity]()}
}

// hear notes that the library heard id, and what id said. It reports whether that changed
// what is known of its node.
func (t *table) hear(id identity, address netip.AddrPort, s said, now time.Time) bool {
	p := t.process(id)
	if p == nil {
		p = &process{id: id, peerID: id.peerID()}
		t.processes[id.node] = append(t.processes[id.node], p)
	}
	p.address, p.record, p.version, p.leaving, p.beats, p.gone = address, s.Record, s.version, s.leaving, s.beats, false
	p.patience, t.patience = s.patience, max(t.patience, s.patience)
	t.moved = true
	t.suspicions.RefuteConfirmed(id)
	return t.judge(id.node, now)
}

// lose notes that the library takes id for dead, which is believed at until unless the
// library hears it before.
func (t *table) lose(id identity, until, now time.Time) bool {
	p := t.process(id)
	if p == nil {
		t.suspicions.Drop(id)
		return false
	}
	if until.After(now) && !p.leaving {
		t.suspicions.Suspect(id, until, true)
		return false
	}
	p.gone, p.silentUntil, t.moved = true, time.Time{}, true
	t.suspicions.Drop(id)
	return t.judge(id.node, now)
}

// some returns n of the other living processes, by chance.
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

// judge brings what is known of node up to date with its processes, and reports whether
// that changed it.
func (t *table) judge(node string, now time.Time) bool {
	best := slices.MaxFunc(t.processes[node], preference)
	m := Member{
		Node: node, Instance: best.id.instance, Address: best.address,
		Record: best.record, State: best.state(), Since: now,
	}
	if m.State == Alive && t.doubted() {
		m.Unheard = best.unheard
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

// preference orders the processes of a node: the greatest speaks for it.
func preference(a, b *process) int {
	if a.state() == Alive || b.state() == Alive {
		if c := cmp.Compare(b.state(), a.state()); c != 0 {
			return c
		}
	}
	return cmp.Compare(a.id.instance, b.id.instance)
}

func same(a, b Member) bool {
	return a.Instance == b.Instance && a.Address == b.Address && a.State == b.State && a.Unheard.Equal(b.Unheard) &&
		a.Record.Draining == b.Record.Draining && a.Record.Truncated == b.Record.Truncated && a.Record.Digest == b.Record.Digest &&
		slices.Equal(a.Record.Subnets, b.Record.Subnets) && slices.Equal(a.Record.Own, b.Record.Own)
}

// forget drops the nodes that have been dead or away since before, and reports whether
// there were any. It keeps a process that the library takes for alive, as the library will
// not report that one again.
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
