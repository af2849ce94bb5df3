package speaker

import (
	"errors"
	"time"
)

// stuckAfter is how long one turn of the loop may take before the loop counts as stuck.
const stuckAfter = time.Minute

// Healthy returns an error if the loop is stuck. A router that is away is no reason to
// restart, so neighbors do not count.
func (s *Speaker) Healthy() error {
	return s.pulse.Stuck(time.Now(), stuckAfter)
}

// Ready returns an error until the speaker has once acted on a configuration, or on the
// absence of one.
func (s *Speaker) Ready() error {
	if s.pulse.Decided() {
		return nil
	}
	return errors.New("it is not known yet what is to be announced")
}
