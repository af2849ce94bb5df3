package gossip

import (
	"slices"
	"testing"
	"time"

	"purelb.io/purelb/internal/nodes/election"
)

// heardOf returns the number of nodes that a hears, with itself, the number of dead nodes, and the
// number of nodes that it does not know.
func heardOf(a *agent) (heard, dead, unknown int) {
	for _, m := range a.Members() {
		switch {
		case m.State == election.Dead:
			dead++
		case !m.Unheard.IsZero():
			unknown++
		case m.State == election.Alive:
			heard++
		}
	}
	return heard, dead, unknown
}

// Each side of a split detects the loss of the other side in steps. It first detects the nodes whose
// watchers are on its own side. During these steps, the smaller side must not count itself as the
// larger one. The larger side must not count itself as the smaller one for long. A probe of the
// segment takes 100 ms, so a shorter mistake moves no address.
func TestTheSmallerSideOfASplitNoticesAtOnce(t *testing.T) {
	t.Parallel()
	const nodes = 60
	for _, tt := range []struct {
		cut      int
		patience time.Duration
	}{{12, 0}, {21, 0}, {18, 2 * time.Second}} {
		inCluster(t, 0, func(c *cluster) {
			for i := range nodes {
				c.start(nodeName(i), i, func(o *Options) { o.Patience = tt.patience })
			}
			c.pass(10 * time.Second)
			c.split(tt.cut, tt.patience, 500*time.Millisecond)
		})
	}
}

// split separates the first nodes from the others. A node of the smaller side must count more nodes
// as lost than as heard, and a node of the larger side fewer. The test fails if a node of the larger
// side is wrong for longer than mostLate, or a node of the smaller side for more than a moment.
func (c *cluster) split(cut int, patience, mostLate time.Duration) {
	c.t.Helper()
	nodes := len(c.agents)
	smaller := func(a *agent) bool { return a.self.node < nodeName(cut) }
	for _, a := range c.agents {
		if smaller(a) {
			a.port.putOnSide(1)
		}
	}
	const step, mostWrong = 10 * time.Millisecond, 50 * time.Millisecond
	wrong, late := make([]time.Duration, nodes), make([]time.Duration, nodes)
	for at := time.Duration(0); at < 4*time.Second+2*patience; at += step {
		c.pass(step)
		for i, a := range c.agents {
			heard, dead, unknown := heardOf(a)
			if smaller(a) && dead > 0 && heard >= dead+unknown {
				wrong[i] += step
			}
			if !smaller(a) && dead > 0 && heard <= dead+unknown {
				late[i] += step
			}
		}
	}
	if most := slices.Max(wrong); most > mostWrong {
		c.t.Errorf("%d of %d nodes, patience %v: for %v, the smaller side counts itself as the larger one", cut, nodes, patience, most)
	}
	if most := slices.Max(late); most > mostLate {
		c.t.Errorf("%d of %d nodes, patience %v: for %v, the larger side counts itself as the smaller one", cut, nodes, patience, most)
	}
	for _, a := range c.agents {
		heard, dead, unknown := heardOf(a)
		if want := nodes - cut; !smaller(a) && (heard != want || dead != cut || unknown > 0) {
			c.t.Errorf("in the end %s hears %d nodes, lost %d and does not know %d", a.self.node, heard, dead, unknown)
		}
	}
}
