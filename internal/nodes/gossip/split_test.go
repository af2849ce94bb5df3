package gossip

import (
	"slices"
	"testing"
	"time"
)

// heardOf returns the number of nodes that a hears, with itself, and the number of dead nodes.
func heardOf(a *agent) (heard, dead int) {
	for _, m := range a.Members() {
		switch m.State {
		case Dead:
			dead++
		case Alive:
			heard++
		}
	}
	return heard, dead
}

// Each side of a split detects the loss of the other side in steps. During these steps, the smaller
// side takes itself for the larger one. So the steps must follow each other so fast that no side
// believes a loss before the last step (election.Settling). The larger side must not count itself as
// the smaller one for long.
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

func TestTheSmallerSideNoticesDuringARollout(t *testing.T) {
	t.Parallel()
	const nodes, cut, every, away = 40, 13, 500 * time.Millisecond, 900 * time.Millisecond
	inCluster(t, nodes, func(c *cluster) {
		c.pass(5 * time.Second)
		for i := range nodes {
			node := i * 7 % nodes // the sides take turns
			c.powerOff(slices.IndexFunc(c.agents, func(a *agent) bool { return a.self.node == nodeName(node) }))
			time.AfterFunc(away, func() { c.start(nodeName(node), node, nil) })
			c.pass(every)
		}
		c.pass(away)
		c.split(cut, 0, 2*time.Second)
	})
}

// split separates the first nodes from the others. A node of the smaller side must count more nodes
// as lost than as heard, and a node of the larger side fewer. The test fails if a node of the larger
// side is wrong for longer than mostLate, or if a node of the smaller side is wrong for more than a
// moment, not counting the time after a step. A probe of the segment takes 100 ms, so a shorter
// mistake moves no address.
func (c *cluster) split(cut int, patience, mostLate time.Duration) {
	c.t.Helper()
	nodes := len(c.agents)
	smaller := func(a *agent) bool { return a.self.node < nodeName(cut) }
	for _, a := range c.agents {
		if smaller(a) {
			a.port.putOnSide(1)
		}
	}
	const step, mostWrong, several, settling = 10 * time.Millisecond, 100 * time.Millisecond, 3, 400 * time.Millisecond
	type count struct {
		dead int
		at   time.Time
	}
	last := make([]count, nodes)
	wrong, late := make([]time.Duration, nodes), make([]time.Duration, nodes)
	for at := time.Duration(0); at < 4*time.Second+2*patience; at += step {
		c.pass(step)
		for i, a := range c.agents {
			heard, dead := heardOf(a)
			if dead != last[i].dead {
				last[i] = count{dead, time.Now()}
			}
			if smaller(a) && dead > 0 && heard >= dead && (dead < several || time.Since(last[i].at) >= settling) {
				wrong[i] += step
			}
			if !smaller(a) && dead > 0 && heard <= dead {
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
		heard, dead := heardOf(a)
		if want := nodes - cut; !smaller(a) && (heard != want || dead != cut) {
			c.t.Errorf("in the end %s hears %d nodes and lost %d", a.self.node, heard, dead)
		}
	}
}
