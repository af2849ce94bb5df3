package agent

import (
	"errors"
	"time"
)

// stuckAfter is how long a pass may take before the agent counts as stuck.
const stuckAfter = 2 * passLimit

// Healthy returns an error when the loop is stuck.
func (a *Agent) Healthy() error {
	return a.pulse.Stuck(time.Now(), stuckAfter)
}

// Ready returns an error until the agent has decided on all addresses once.
func (a *Agent) Ready() error {
	if a.pulse.Decided() {
		return nil
	}
	return errors.New("not all of the cluster has been seen yet")
}
