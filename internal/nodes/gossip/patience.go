package gossip

import (
	"fmt"
	"math"
	"time"
)

// Patience is about how long a process is silent before the others declare it dead. An
// administrator raises it for nodes that pause, for example for a snapshot or a live
// migration. A pause that is clearly shorter than the patience then moves no address. Each
// process publishes its own patience. All use the longest patience of the living processes,
// so they agree while the setting changes.
const (
	DefaultPatience = 400 * time.Millisecond
	MaxPatience     = 5 * time.Second
)

// A record carries the patience in one byte, in this unit.
const patienceUnit = 100 * time.Millisecond

// ValidPatience reports what is wrong with d as a patience. Zero means the default.
func ValidPatience(d time.Duration) error {
	if d != 0 && (d < DefaultPatience || d > MaxPatience || d%patienceUnit != 0) {
		return fmt.Errorf("the patience of gossip is %v; say %v to %v, in steps of %v", d, DefaultPatience, MaxPatience, patienceUnit)
	}
	return nil
}

// readPatience decodes the patience byte of a record. It clamps a value to the limits, so
// no member can make the others wait for longer than MaxPatience.
func readPatience(b byte) time.Duration {
	return min(max(time.Duration(b)*patienceUnit, DefaultPatience), MaxPatience)
}

// Patience returns the patience in force: the longest of all living processes.
func (g *Gossip) Patience() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.patience()
}

// patience is Patience for callers that hold mu.
func (g *Gossip) patience() time.Duration { return max(g.opt.Patience, g.table.patience) }

// suspicionTime is how long a suspicion waits for a refutation. The missed heartbeats
// before it and this time add up to the patience. The caller holds mu.
func (g *Gossip) suspicionTime() time.Duration {
	return g.opt.Timing.Silence + g.patience() - DefaultPatience
}

// slowLibrary prolongs the library's own suspicions by the difference between the patience
// in force and DefaultPatience. Only the library's callbacks may call it: they run with the
// lock held under which the library reads SuspicionMult.
func (g *Gossip) slowLibrary() {
	g.mu.Lock()
	longer, nodes := g.patience()-DefaultPatience, len(g.table.nodes)
	g.mu.Unlock()
	g.library.SuspicionMult = libraryMult(longer, nodes, g.opt.Timing.Probe)
}

// libraryMult returns the smallest SuspicionMult that prolongs a suspicion of the library
// by longer. The duration of such a suspicion is SuspicionMult, times the decimal logarithm
// of the number of nodes (at least 1), times probe.
func libraryMult(longer time.Duration, nodes int, probe time.Duration) int {
	each := max(1, math.Log10(float64(max(nodes, 1)))) * probe.Seconds()
	return suspicion + int(math.Ceil(longer.Seconds()/each))
}

// longestPatience sets t.patience to the longest patience of the living processes.
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
