package gossip

import (
	"slices"
	"time"

	"purelb.io/purelb/internal/detector"
)

// suspicionTTL is for how long the silence of a process is believed that the library
// takes for alive all the while. A watcher that misses it says so again in less.
const suspicionTTL = 5 * time.Second

// suspect notes that some process misses the heartbeats of id, whose death is believed at
// until unless it is heard before.
func (t *table) suspect(id identity, until, now time.Time) {
	p := t.process(id)
	switch {
	case p == nil || p.state() != Alive && p.silentUntil.IsZero():
	case p.silentUntil.IsZero():
		t.suspicions.Suspect(id, until, false)
	default:
		p.silentUntil = now.Add(suspicionTTL)
	}
}

// refute notes that id is heard, and reports whether that changes what is known of its
// node.
func (t *table) refute(id identity, now time.Time) bool {
	p := t.process(id)
	if p == nil {
		return false
	}
	t.suspicions.Refute(id)
	if p.silentUntil.IsZero() {
		return false
	}
	p.silentUntil, t.moved = time.Time{}, true
	t.patience = max(t.patience, p.patience)
	return t.judge(id.node, now)
}

// believe takes id for dead. The suspicion is confirmed if it is the library's too.
func (t *table) believe(id identity, confirmed bool, now time.Time) bool {
	p := t.process(id)
	if confirmed || p == nil {
		return t.lose(id, now, now)
	}
	p.silentUntil, t.moved, t.lost = now.Add(suspicionTTL), true, now
	return t.judge(id.node, now)
}

// doubted reports whether a process was lost since some are unheard: what is lost together
// may be lost by a fault on this side. That a process is unheard while no other is lost
// means nothing.
func (t *table) doubted() bool { return t.unheard > 0 && !t.lost.Before(t.unheardSince) }

// mark notes which processes are unheard now, and reports whether that changed what is known
// of any node.
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

// judgeAll brings what is known of all nodes up to date.
func (t *table) judgeAll(now time.Time) (changed bool) {
	for node := range t.processes {
		changed = t.judge(node, now) || changed
	}
	return changed
}

// settled is what settle has done.
type settled struct {
	// changed are the nodes of which it changed what is known, late is how many
	// suspicions were postponed, and next is when there is more to do, zero for
	// never.
	changed []Member
	late    int
	next    time.Time
	// doubts says that other nodes became unheard by that.
	doubts bool
}

// settle believes the suspicions that were not refuted in time, and ends the silence of
// processes that the library has heard all the while.
func (t *table) settle(now time.Time) settled {
	e := t.suspicions.Expire(now)
	s := settled{late: e.Late, next: e.Next}
	for id, confirmed := range e.Dead {
		if t.believe(id, confirmed, now) {
			s.changed = append(s.changed, t.nodes[id.node])
		}
	}
	if len(e.Dead) > 0 && t.doubted() {
		s.doubts = t.judgeAll(now)
	}
	for _, all := range t.processes {
		for _, p := range slices.Clone(all) { // to judge one may forget others
			switch {
			case p.silentUntil.IsZero():
			case now.Before(p.silentUntil):
				s.next = detector.Earliest(s.next, p.silentUntil)
			case t.refute(p.id, now):
				s.changed = append(s.changed, t.nodes[p.id.node])
			}
		}
	}
	t.longestPatience()
	return s
}
