package gossip

import (
	"fmt"
	"math"
	"time"
)

// Patience is after how long, about, a process that is not heard counts as dead. It is one
// setting for clusters whose nodes pause, as for a snapshot or a live migration: a pause
// that is clearly shorter moves nothing. Each process publishes its own patience, and all
// use the longest of those that live, so that they agree while the setting changes.
const (
	DefaultPatience = 400 * time.Millisecond
	MaxPatience     = 5 * time.Second
)

// Patience is published in one byte, in this unit.
const patienceUnit = 100 * time.Millisecond

// ValidPatience tells what is wrong with d as a patience. Zero is the default.
func ValidPatience(d time.Duration) error {
	if d != 0 && (d < DefaultPatience || d > MaxPatience || d%patienceUnit != 0) {
		return fmt.Errorf("the patience of gossip is %v; say %v to %v, in steps of %v", d, DefaultPatience, MaxPatience, patienceUnit)
	}
	return nil
}

// readPatience returns the patience that a byte of a record says. A value out of range
// counts as the nearest: no member can make the others wait for longer than MaxPatience.
func readPatience(b byte) time.Duration {
	return min(max(time.Duration(b)*patienceUnit, DefaultPatience), MaxPatience)
}

// Patience returns the patience in force: the longest of all living processes.
func (g *Gossip) Patience() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.patience()
}

// patience is Patience, with mu held.
func (g *Gossip) patience() time.Duration { return max(g.opt.Patience, g.table.patience) }

// suspicionTime is how long a suspicion waits for a refutation. Together with the missed
// heartbeats before it that makes the patience. The caller holds mu.
func (g *Gossip) suspicionTime() time.Duration {
	return g.opt.Timing.Silence + g.patience() - DefaultPatience
}

// slowLibrary makes the library's own suspicions last for longer by as much as the patience
// in force is longer than DefaultPatience. Only the library's callbacks may call it: they
// run with the lock held under which the library reads this.
func (g *Gossip) slowLibrary() {
	g.mu.Lock()
	longer, nodes := g.patience()-DefaultPatience, len(g.table.nodes)
	g.mu.Unlock()
	g.library.SuspicionMult = libraryMult(longer, nodes, g.opt.Timing.Probe)
}

// libraryMult returns the least SuspicionMult with which a suspicion of the library lasts
// for longer by longer. In a cluster of so many nodes the library takes it times
// the decimal logarithm of their number, and times a Probe.
func libraryMult(longer time.Duration, nodes int, probe time.Duration) int {
	each := max(1, math.Log10(float64(max(nodes, 1)))) * probe.Seconds()
	return suspicion + int(math.Ceil(longer.Seconds()/each))
}

// longestPatience brings the patience of the living processes up to date.
func (t *table) longestPatience() {
	t.patience = 0
	for _, all := range t.processes {
		for _, p := range all {
			if p.state() == Alive {
				t.patience = max(t.patience, p.patience)
			}
		}
	}
}
