package speaker

import (
	"fmt"
	"sync/atomic"
	"time"
)

// stuckAfter is how long the loop may take for one turn before it counts as
// stuck.
const stuckAfter = time.Minute

// pulse is the state of the loop, for the probes. It is safe for concurrent use.
type pulse struct {
	began   atomic.Pointer[time.Time] // the turn that is under way, if any
	isReady atomic.Bool
}

func (p *pulse) begin(now time.Time) { p.began.Store(&now) }
func (p *pulse) end()                { p.began.Store(nil) }
func (p *pulse) decided()            { p.isReady.Store(true) }

// Healthy returns an error when the loop is stuck. Neighbours are no part of it:
// that a router is away is no reason to start again.
func (s *Speaker) Healthy() error {
	began := s.pulse.began.Load()
	if began == nil || time.Since(*began) < stuckAfter {
		return nil
	}
	return fmt.Errorf("a pass began %s ago and has not ended", time.Since(*began).Round(time.Second))
}

// Ready returns an error until the speaker has acted on a configuration, or on
// there being none, once.
func (s *Speaker) Ready() error {
	if s.pulse.isReady.Load() {
		return nil
	}
	return fmt.Errorf("it is not known yet what is to be announced")
}
