package gossip

import (
	"slices"
	"time"

	"purelb.io/purelb/internal/nodes/election"
)

// suspicionTTL is how long the table treats a process as dead because of missed heartbeats alone,
// while the library still lists the process as alive. A watcher that still misses the heartbeats
// repeats its suspicion within this time (detector.Renewal).
const suspicionTTL = 5 * time.Second

const (
	// maxLate is the largest delay after which this process believes a suspicion at once. A
	// process with a longer delay did not run, so it has not read a refutation either.
	maxLate = 50 * time.Millisecond
	// lateGrace is how long such a process reads waiting packets before it believes the
	// suspicion.
	lateGrace = 100 * time.Millisecond
)

// suspicion is the claim that a process is dead. The zero suspicion is none.
type suspicion struct {
	// until is when this process believes it.
	until time.Time
	// confirmed means that the library claims the death too, not only the watchers that miss
	// heartbeats. A heartbeat refutes the watchers, but not the library.
	confirmed bool
	// late means that this process did not run when it should have believed the suspicion.
	late bool
}

// suspect records that a watcher misses the heartbeats of id. The table declares id dead at
// until, unless a process hears id before.
func (t *table) suspect(id identity, until, now time.Time) {
	p := t.process(id)
	switch {
	case p == nil || p.state() != election.Alive && p.deadUntil.IsZero():
	case p.deadUntil.IsZero():
		t.doubt(p, until, false)
	default:
		p.deadUntil = now.Add(suspicionTTL)
	}
}

// doubt adds the suspicion that p is dead. Of several suspicions, the earliest until counts.
// confirmed means that the library suspects p.
func (t *table) doubt(p *process, until time.Time, confirmed bool) {
	p.suspicion.until = earliest(p.suspicion.until, until)
	p.suspicion.confirmed = p.suspicion.confirmed || confirmed
	t.due = earliest(t.due, until)
}

// refute records that a process heard id. It reports whether that changed the known state
// of the node.
func (t *table) refute(id identity, now time.Time) bool {
	p := t.process(id)
	if p == nil {
		return false
	}
	if !p.suspicion.confirmed {
		p.suspicion = suspicion{}
	}
	if p.deadUntil.IsZero() {
		return false
	}
	p.deadUntil, t.moved = time.Time{}, true
	return t.judge(id.node, now)
}

// believe declares p dead, which is suspected.
func (t *table) believe(p *process, now time.Time) bool {
	if p.suspicion.confirmed {
		return t.lose(p.id, now, now)
	}
	p.suspicion = suspicion{}
	p.deadUntil, t.moved, t.lost = now.Add(suspicionTTL), true, now
	return t.judge(p.id.node, now)
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

// settle declares processes dead if no process refuted the suspicion in time. It postpones a
// suspicion once if this process should have believed it long ago. When suspicionTTL is over, it
// makes a process alive again if the library still hears it. Then due is when the next of these
// times comes; zero means never.
func (t *table) settle(now time.Time) (s settled) {
	t.due = time.Time{}
	died := false
	for _, all := range t.processes {
		for _, p := range slices.Clone(all) { // judge may delete processes from the list
			changed := false
			switch until := p.suspicion.until; {
			case until.IsZero() || now.Before(until):
			case !p.suspicion.late && now.Sub(until) > maxLate:
				p.suspicion.until, p.suspicion.late = now.Add(lateGrace), true
				s.late++
			default:
				died, changed = true, t.believe(p, now)
			}
			if !p.deadUntil.IsZero() && !now.Before(p.deadUntil) {
				changed = t.refute(p.id, now) || changed
			}
			if changed {
				s.changed = append(s.changed, t.nodes[p.id.node])
			}
			t.due = earliest(t.due, earliest(p.suspicion.until, p.deadUntil))
		}
	}
	if died && t.doubted() {
		s.doubts = t.judgeAll(now)
	}
	return s
}

// earliest returns the earlier of two times. A zero time means never.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
