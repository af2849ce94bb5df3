package detector

import "time"

const (
	// MaxLate is the largest delay after which this process believes a suspicion at once. A
	// process with a longer delay did not run, so it has not read a refutation either.
	MaxLate = 50 * time.Millisecond
	// lateGrace is how long such a process reads waiting packets before it believes the
	// suspicion.
	lateGrace = 100 * time.Millisecond
)

// Suspicions are the suspected processes, identified by K, that have not refuted their
// suspicion. It is not safe for concurrent use.
type Suspicions[K comparable] struct {
	pending map[K]suspicion
}

// suspicion is the claim that a process is dead.
type suspicion struct {
	// until is when this process believes it.
	until time.Time
	// confirmed means that membership claims the death too, not only the watchers that miss
	// heartbeats.
	confirmed bool
	// late means that this process did not run when it should have believed the suspicion.
	late bool
}

// NewSuspicions returns an empty set.
func NewSuspicions[K comparable]() Suspicions[K] {
	return Suspicions[K]{pending: map[K]suspicion{}}
}

// Suspect adds the suspicion that id is dead. It is believed at until unless it is refuted
// before. If there are several suspicions of one process, the earliest until counts.
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

// Refute drops the suspicion of id because a heartbeat arrived. A heartbeat refutes the
// watchers, but not membership.
func (s Suspicions[K]) Refute(id K) {
	if !s.pending[id].confirmed {
		delete(s.pending, id)
	}
}

// RefuteConfirmed drops the suspicion of id if membership confirmed it, because membership
// has heard of id again.
func (s Suspicions[K]) RefuteConfirmed(id K) {
	if s.pending[id].confirmed {
		delete(s.pending, id)
	}
}

// Drop forgets the suspicion of id.
func (s Suspicions[K]) Drop(id K) { delete(s.pending, id) }

// Expired is the result of Suspicions.Expire.
type Expired[K comparable] struct {
	// Dead are the processes that did not refute in time. The value says whether membership
	// confirmed the suspicion.
	Dead map[K]bool
	// Late is the number of suspicions that were postponed because this process did not
	// run.
	Late int
	// Next is when the next suspicion is due. Zero means that none is left.
	Next time.Time
}

// Expire removes and returns the suspicions that are due at now. It postpones a suspicion
// once if this process should have believed it long ago.
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

// Earliest returns the earlier of two times. A zero time means never.
func Earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
