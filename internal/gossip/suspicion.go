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
	p.silentUntil, t.moved = now.Add(suspicionTTL), true
	return t.judge(id.node, now)
}

// settled is what settle has done.
type settled struct {
	// changed are the nodes of which it changed what is known, late is how many
	// suspicions were postponed, and next is when there is more to do, zero for
	// never.
	changed []Member
	late    int
	next    time.Time
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
