package speaker

import (
	"errors"
	"time"
)

// stuckAfter is how long the loop may take for one turn before it counts as
// stuck.
const stuckAfter = time.Minute

// Healthy returns an error when the loop is stuck. Neighbours are no part of it:
// that a router is away is no reason to start again.
func (s *Speaker) Healthy() error {
	return s.pulse.Stuck(time.Now(), stuckAfter)
}

// Ready returns an error until the speaker has acted on a configuration, or on
// there being none, once.
func (s *Speaker) Ready() error {
	if s.pulse.Decided() {
		return nil
	}
	return errors.New("it is not known yet what is to be announced")
}
