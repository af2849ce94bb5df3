package gossip

import "time"

// doubt is when to believe that a process is gone.
type doubt struct {
	believe time.Time
	// late says that this process did not run when it should have believed it.
	late bool
}

const (
	// stall is how late we may be to believe something: who has not run for
	// longer has not read a contradiction either, and has grace to do so.
	stall = 50 * time.Millisecond
	grace = 100 * time.Millisecond
)

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
			d = doubt{now.Add(grace), true}
			t.doubts[id] = d
			s.late++
		default:
			if t.lose(id, now, now) {
				s.changed = append(s.changed, t.nodes[id.node])
			}
			continue
		}
		if s.next.IsZero() || d.believe.Before(s.next) {
			s.next = d.believe
		}
	}
	return s
}
