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

// refutation is how long this process waits after the library has lost another one. With the
// library's own suspicion before it, the other one has at least Timing.Refute. The caller holds mu.
func (g *Gossip) refutation() time.Duration {
	return max(0, g.opt.Timing.Refute-libraryTime(suspicion, len(g.table.nodes), g.opt.Timing.Probe))
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
// by longer.
func libraryMult(longer time.Duration, nodes int, probe time.Duration) int {
	each := libraryTime(1, nodes, probe)
	return suspicion + int((longer+each-1)/each)
}

// libraryTime returns how long a suspicion of the library lasts.
func libraryTime(mult, nodes int, probe time.Duration) time.Duration {
	scale := max(1, math.Log10(float64(max(nodes, 1))))
	return time.Duration(float64(mult) * scale * float64(probe))
}
