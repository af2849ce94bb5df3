package announce

import (
	"time"

	"purelb.io/purelb/internal/config"
)

// Schedule returns when to claim an address on the wire, counted from the
// moment in which it was added.
func Schedule(g config.GARP) []time.Duration {
	if !g.Enabled || g.Count <= 0 {
		return nil
	}
	at := make([]time.Duration, g.Count)
	for i := range at {
		at[i] = g.InitialDelay + time.Duration(i)*g.Interval
	}
	return at
}
