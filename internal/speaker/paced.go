package speaker

import "time"

// paced decides when work beside the loop may start: one run at a time, and then a pause of
// ten times the duration of the last run, at most rereadEvery. With a full Internet table
// there would otherwise always be work.
type paced struct {
	busy bool
	// due is when to start. Zero means: at the next event.
	due, last time.Time
	cost      time.Duration
}

// later asks for a run at the given time or earlier, but not within the pause.
func (p *paced) later(at time.Time) {
	at = latest(at, p.last.Add(min(10*p.cost, rereadEvery)))
	if p.due.IsZero() || at.Before(p.due) {
		p.due = at
	}
}

// ready reports whether it is time to start.
func (p *paced) ready(now time.Time) bool {
	return !p.busy && !p.due.IsZero() && !now.Before(p.due)
}

// begin records that a run is under way.
func (p *paced) begin() { p.busy, p.due = true, time.Time{} }

// ended delays a request that came during the run until after the pause. The run may not have
// seen what the request is about.
func (p *paced) ended(now time.Time, cost time.Duration) {
	p.busy, p.last, p.cost = false, now, cost
	if wished := p.due; !wished.IsZero() {
		p.due = time.Time{}
		p.later(wished)
	}
}
