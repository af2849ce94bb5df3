package detector

import "time"

const (
	// MaxLate is how late a suspicion may be believed without more ado. A process that
	// is later has not run, so it has not read a refutation either.
	MaxLate = 50 * time.Millisecond
	// lateGrace is how long such a process then reads what was waiting.
	lateGrace = 100 * time.Millisecond
)

// Suspicions are the processes, named by K, that are said to be dead and have not refuted
// it yet. They are not safe for concurrent use.
type Suspicions[K comparable] struct {
	pending map[K]suspicion
}

// suspicion is the claim that a process is dead.
type suspicion struct {
	// until is when it is believed.
	until time.Time
	// confirmed says that membership makes the claim too, and not only the watchers
	// that miss heartbeats.
	confirmed bool
	// late says that this process did not run when it should have believed it.
	late bool
}

// NewSuspicions returns an empty set.
func NewSuspicions[K comparable]() Suspicions[K] {
	return Suspicions[K]{pending: map[K]suspicion{}}
}

// Suspect adds the suspicion that id is dead, which is believed at until unless it is
// refuted. Of several for one process the earliest counts.
func (s Suspicions[K]) Suspect(id K, until time.Time, confirmed bool) {
	n := suspicion{until: until, confirmed: confirmed}
	if old, ok := s.pending[id]; ok {
		n.late, n.confirmed = old.late, old.confirmed || confirmed
		if old.until.Before(until) {
			n.until = old.until
		}
	}
	s.pending[id] = n
}

// Refute drops the suspicion of id because a heartbeat was received. That refutes the
// watchers, but not membership.
func (s Suspicions[K]) Refute(id K) {
	if !s.pending[id].confirmed {
		delete(s.pending, id)
	}
}

// RefuteConfirmed drops the suspicion of id if membership made it, which has heard of id
// again.
func (s Suspicions[K]) RefuteConfirmed(id K) {
	if s.pending[id].confirmed {
		delete(s.pending, id)
	}
}

// Drop forgets the suspicion of id.
func (s Suspicions[K]) Drop(id K) { delete(s.pending, id) }

// Expired is what time has decided.
type Expired[K comparable] struct {
	// Dead are the processes that have not refuted in time. The value says whether
	// membership has confirmed it.
	Dead map[K]bool
	// Late is how many suspicions were postponed because this process did not run.
	Late int
	// Next is when the next suspicion is due, zero for none.
	Next time.Time
}

// Expire removes the suspicions that are to be believed at now and returns them. A
// suspicion that this process should have believed long ago is postponed once.
func (s Suspicions[K]) Expire(now time.Time) Expired[K] {
	e := Expired[K]{Dead: map[K]bool{}}
	for id, x := range s.pending {
		switch {
		case now.Before(x.until):
		case !x.late && now.Sub(x.until) > MaxLate:
			x.until, x.late = now.Add(lateGrace), true
			s.pending[id] = x
			e.Late++
		default:
			delete(s.pending, id)
			e.Dead[id] = x.confirmed
			continue
		}
		e.Next = Earliest(e.Next, x.until)
	}
	return e
}

// Earliest returns the earlier of two times, where zero is never.
func Earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
