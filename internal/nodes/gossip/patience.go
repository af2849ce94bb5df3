package gossip

import (
	"fmt"
	"math"
	"time"
)

// Patience is about how long a process is not heard before this process declares it dead. An
// administrator raises it for nodes that pause, for example for a snapshot or a live
// migration. A pause that is clearly shorter than the patience then moves no address.
const (
	DefaultPatience = 400 * time.Millisecond
	MaxPatience     = 5 * time.Second
)

// A record carries the patience in one byte, in this unit. Processes of earlier versions use the longest
// patience of all.
const patienceUnit = 100 * time.Millisecond

// ValidPatience reports what is wrong with d as a patience. Zero means the default.
func ValidPatience(d time.Duration) error {
	if d != 0 && (d < DefaultPatience || d > MaxPatience || d%patienceUnit != 0) {
		return fmt.Errorf("the patience of gossip is %v; say %v to %v, in steps of %v", d, DefaultPatience, MaxPatience, patienceUnit)
	}
	return nil
}

// Patience returns how long a process is not heard before this process declares it dead.
func (g *Gossip) Patience() time.Duration { return g.opt.Patience }

// suspicionTime is how long a suspicion waits for a refutation. The missed heartbeats
// before it and this time add up to the patience.
func (g *Gossip) suspicionTime() time.Duration {
	return g.opt.Timing.Refutation + g.opt.Patience - DefaultPatience
}

// librarySuspicion is how many Probes, times the decimal logarithm of the number of nodes (at least 1), the
// library waits before it declares a member dead. That time grows with the cluster, so it is as short as
// the patience allows. This package waits for the rest.
func (g *Gossip) librarySuspicion() int {
	return 1 + int(math.Ceil((g.opt.Patience-DefaultPatience).Seconds()/g.opt.Timing.Probe.Seconds()))
}
