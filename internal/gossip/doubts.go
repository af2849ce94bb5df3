package gossip

import (
	"slices"
	"time"
)

// doubt is when to believe that a process is gone.
type doubt struct {
	believe time.Time
	// library says that it is the library's, and not only of those who miss
	// beats.
	library bool
	// late says that this process did not run when it should have believed it.
	late bool
}

const (
	// stall is how late we may be to believe something: who has not run for
	// longer has not read a contradiction either, and has grace to do so.
	stall = 50 * time.Millisecond
	grace = 100 * time.Millisecond
	// verdict is for how long the silence of a process is believed that the
	// library takes for alive all the while: who misses it says so again in
	// less.
	verdict = 5 * time.Second
)

// doubt adds d to what is known of id.
func (t *table) doubt(id identity, d doubt) {
	if old, ok := t.doubts[id]; ok {
		old.library = old.library || d.library
		if d.believe.Before(old.believe) {
			old.believe = d.believe
		}
		d = old
	}
	t.doubts[id] = d
}

// miss notes that somebody misses the beats of id, which is to be believed at
// believe unless it is heard before.
func (t *table) miss(id identity, believe, now time.Time) {
	p := t.process(id)
	switch {
	case p == nil || p.state() != Alive && p.silent.IsZero():
	case p.silent.IsZero():
		t.doubt(id, doubt{believe: believe})
	default:
		p.silent = now.Add(verdict)
	}
}

// beat notes that id said that it lives, and says whether that changes what is
// known of its node.
func (t *table) beat(id identity, now time.Time) bool {
	p := t.process(id)
	if p == nil {
		return false
	}
	if !t.doubts[id].library {
		delete(t.doubts, id)
	}
	if p.silent.IsZero() {
		return false
	}
	p.silent, t.moved = time.Time{}, true
	return t.judge(id.node, now)
}

// believe takes id for gone.
func (t *table) believe(id identity, d doubt, now time.Time) bool {
	p := t.process(id)
	if d.library || p == nil {
		return t.lose(id, now, now)
	}
	delete(t.doubts, id)
	p.silent, t.moved = now.Add(verdict), true
	return t.judge(id.node, now)
}

// settled is what settle has done.
type settled struct {
	// changed are the nodes of which it changed what is known, late is how
	// often it came too late to believe anything, and next is when there is
	// more to do, zero for never.
	changed []Member
	late    int
	next    time.Time
}

// settle believes that those are gone who were not heard until they were to be
// believed gone.
func (t *table) settle(now time.Time) (s settled) {
	for id, d := range t.doubts {
		switch {
		case now.Before(d.believe):
		case !d.late && now.Sub(d.believe) > stall:
			d.believe, d.late = now.Add(grace), true
			t.doubts[id] = d
			s.late++
		default:
			if t.believe(id, d, now) {
				s.changed = append(s.changed, t.nodes[id.node])
			}
			continue
		}
		s.again(d.believe)
	}
	t.acquit(now, &s)
	return s
}

// acquit believes no longer that those are silent whom the library has not missed
// in all the time.
func (t *table) acquit(now time.Time, s *settled) {
	for _, all := range t.processes {
		for _, p := range slices.Clone(all) { // to judge one may forget others
			switch {
			case p.silent.IsZero():
			case now.Before(p.silent):
				s.again(p.silent)
			case t.beat(p.id, now):
				s.changed = append(s.changed, t.nodes[p.id.node])
			}
		}
	}
}

// again has there be more to do at the given time.
func (s *settled) again(at time.Time) {
	if s.next.IsZero() || at.Before(s.next) {
		s.next = at
	}
}
