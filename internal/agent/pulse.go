package agent

import (
	"fmt"
	"sync/atomic"
	"time"
)

// stuckAfter is how long a pass may take before the agent counts as stuck.
const stuckAfter = 2 * passLimit

// pulse is the state of the loop, for the probes. It is safe for concurrent use.
type pulse struct {
	began   atomic.Pointer[time.Time] // the pass that is under way, if any
	isReady atomic.Bool
}

func (p *pulse) begin(now time.Time) { p.began.Store(&now) }
func (p *pulse) end()                { p.began.Store(nil) }
func (p *pulse) decided()            { p.isReady.Store(true) }

// Healthy returns an error when the loop is stuck.
func (a *Agent) Healthy() error {
	began := a.pulse.began.Load()
	if began == nil || time.Since(*began) < stuckAfter {
		return nil
	}
	return fmt.Errorf("a pass began %s ago and has not ended", time.Since(*began).Round(time.Second))
}

// Ready returns an error until the agent has decided on all addresses once.
func (a *Agent) Ready() error {
	if a.pulse.isReady.Load() {
		return nil
	}
	return fmt.Errorf("not all of the cluster has been seen yet")
}
