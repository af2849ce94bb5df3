package gossip

import (
	"slices"
	"time"

	"purelb.io/purelb/internal/nodes/detector"
	"purelb.io/purelb/internal/nodes/election"
)

// suspicionTTL is how long the table treats a process as dead because of missed heartbeats alone,
// while the library still lists the process as alive. A watcher that still misses the heartbeats
// repeats its suspicion within this time (detector.Renewal).
const suspicionTTL = 5 * time.Second

// suspect records that a watcher misses the heartbeats of id. The table declares id dead at
// until, unless a process hears id before.
func (t *table) suspect(id identity, until, now time.Time) {
	p := t.process(id)
	switch {
	case p == nil || p.state() != election.Alive && p.deadUntil.IsZero():
	case p.deadUntil.IsZero():
		t.doubt(id, until, false)
	default:
		p.deadUntil = now.Add(suspicionTTL)
	}
}

// doubt adds the suspicion that id is dead. confirmed means that the library suspects id.
func (t *table) doubt(id identity, until time.Time, confirmed bool) {
	t.suspicions.Suspect(id, until, confirmed)
	t.due = detector.Earliest(t.due, until)
}

// refute records that a process heard id. It reports whether that changed the known state
// of the node.
func (t *table) refute(id identity, now time.Time) bool {
	p := t.process(id)
	if p == nil {
		return false
	}
	t.suspicions.Refute(id)
	if p.deadUntil.IsZero() {
		return false
	}
	p.deadUntil, t.moved = time.Time{}, true
	return t.judge(id.node, now)
}

// believe declares id dead. confirmed means that the library suspects id too.
func (t *table) believe(id identity, confirmed bool, now time.Time) bool {
	p := t.process(id)
	if confirmed || p == nil {
		return t.lose(id, now, now)
	}
	p.deadUntil, t.moved, t.lost = now.Add(suspicionTTL), true, now
	return t.judge(id.node, now)
}

// doubted reports whether a process was declared dead since processes became unheard. Then
// a fault on this side may be the cause of both. Unheard processes alone mean nothing.
func (t *table) doubted() bool { return t.unheard > 0 && !t.lost.Before(t.unheardSince) }

// mark records which processes are unheard now. It reports whether that changed the known
// state of a node.
func (t *table) mark(unheard map[identity]bool, now time.Time) (changed bool) {
	if len(unheard) == 0 && t.unheard == 0 {
		return false
	}
	if t.unheard == 0 {
		t.unheardSince = now
	}
	t.unheard = len(unheard)
	for _, all := range t.processes {
		for _, p := range all {
			switch is := unheard[p.id]; {
			case !is:
				p.unheard = time.Time{}
			case p.unheard.IsZero():
				p.unheard = now
			}
		}
	}
	return t.judgeAll(now)
}

// judgeAll updates the state of all nodes.
func (t *table) judgeAll(now time.Time) (changed bool) {
	for node := range t.processes {
		changed = t.judge(node, now) || changed
	}
	return changed
}

// settled is the result of settle.
type settled struct {
	// changed are the nodes whose state changed. late is the number of suspicions that were
	// postponed.
	changed []Member
	late    int
	// doubts reports whether Unheard changed for other nodes.
	doubts bool
}

// settle declares processes dead if no process refuted the suspicion in time. When
// suspicionTTL is over, it makes a process alive again if the library still hears it. Then due is when
// the next of these times comes; zero means never.
func (t *table) settle(now time.Time) settled {
	e := t.suspicions.Expire(now)
	s := settled{late: e.Late}
	t.due = e.Next
	for id, confirmed := range e.Dead {
		if t.believe(id, confirmed, now) {
			s.changed = append(s.changed, t.nodes[id.node])
		}
	}
	if len(e.Dead) > 0 && t.doubted() {
		s.doubts = t.judgeAll(now)
	}
	for _, all := range t.processes {
		for _, p := range slices.Clone(all) { // judge may delete processes from the list
			switch {
			case p.deadUntil.IsZero():
			case now.Before(p.deadUntil):
				t.due = detector.Earliest(t.due, p.deadUntil)
			case t.refute(p.id, now):
				s.changed = append(s.changed, t.nodes[p.id.node])
			}
		}
	}
	return s
}
