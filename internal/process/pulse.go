package process

import (
	"fmt"
	"sync/atomic"
	"time"
)

// Pulse is the state of a loop for probes. It is safe for concurrent use.
type Pulse struct {
	began   atomic.Pointer[time.Time] // the pass that is under way, if any
	decided atomic.Bool
}

// Begin records that a pass starts.
func (p *Pulse) Begin(now time.Time) { p.began.Store(&now) }

// End records that the pass has ended.
func (p *Pulse) End() { p.began.Store(nil) }

// Decide records that the loop has decided on everything once.
func (p *Pulse) Decide() { p.decided.Store(true) }

// Decided reports whether Decide was called.
func (p *Pulse) Decided() bool { return p.decided.Load() }

// Stuck returns an error if the present pass started longer ago than limit.
func (p *Pulse) Stuck(now time.Time, limit time.Duration) error {
	began := p.began.Load()
	if began == nil || now.Sub(*began) < limit {
		return nil
	}
	return fmt.Errorf("a pass began %s ago and has not ended", now.Sub(*began).Round(time.Second))
}
