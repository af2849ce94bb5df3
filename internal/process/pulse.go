package process

import (
	"fmt"
	"sync/atomic"
	"time"
)

// Pulse is the state of a loop, for probes. It is safe for concurrent use.
type Pulse struct {
	began   atomic.Pointer[time.Time] // the pass that is under way, if any
	decided atomic.Bool
}

// Begin notes that a pass begins, and End that it has ended.
func (p *Pulse) Begin(now time.Time) { p.began.Store(&now) }

// End is after Begin.
func (p *Pulse) End() { p.began.Store(nil) }

// Decide notes that the loop has decided on everything once.
func (p *Pulse) Decide() { p.decided.Store(true) }

// Decided says whether it has.
func (p *Pulse) Decided() bool { return p.decided.Load() }

// Stuck is an error when the pass under way began longer ago than limit.
func (p *Pulse) Stuck(now time.Time, limit time.Duration) error {
	began := p.began.Load()
	if began == nil || now.Sub(*began) < limit {
		return nil
	}
	return fmt.Errorf("a pass began %s ago and has not ended", now.Sub(*began).Round(time.Second))
}
