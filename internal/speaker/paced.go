package speaker

import "time"

// paced is when to do work beside the loop: one piece at a time, and not again
// for ten times as long as it took last, but at most rereadEvery. With all routes
// of the Internet, there would always be something to do.
type paced struct {
	busy bool
	// due is when to begin; zero: when something happens.
	due, last time.Time
	cost      time.Duration
}

// later has the work be done at the given time, or before, but not too often.
func (p *paced) later(at time.Time) {
	at = latest(at, p.last.Add(min(10*p.cost, rereadEvery)))
	if p.due.IsZero() || at.Before(p.due) {
		p.due = at
	}
}

// ready reports whether it is time to begin.
func (p *paced) ready(now time.Time) bool {
	return !p.busy && !p.due.IsZero() && !now.Before(p.due)
}

// begin notes that the work is under way.
func (p *paced) begin() { p.busy, p.due = true, time.Time{} }

// ended has what was wished for meanwhile wait for its time: what was done may be
// for what was so before.
func (p *paced) ended(now time.Time, cost time.Duration) {
	p.busy, p.last, p.cost = false, now, cost
	if wished := p.due; !wished.IsZero() {
		p.due = time.Time{}
		p.later(wished)
	}
}
