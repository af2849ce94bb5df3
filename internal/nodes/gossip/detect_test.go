package gossip

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/testing/expect"
)

// kill powers off some machines at once, several times. It returns the sorted times that each
// survivor needed to detect each death, and how often a survivor saw a live node as dead.
func kill(c *cluster, times, machines int) (after []time.Duration, wrong int) {
	for range times {
		at := time.Now()
		var dead []*agent
		for range machines {
			dead = append(dead, c.powerOff(1))
		}
		c.pass(2 * time.Second)
		for _, a := range c.agents {
			for _, d := range dead {
				seen, ok := a.saw(d.self.node, election.Dead)
				if !ok {
					c.t.Fatalf("%s has not detected that %s is dead", a.self.node, d.self.node)
				}
				after = append(after, seen.Sub(at))
			}
		}
	}
	slices.Sort(after)
	return after, c.wronged()
}

// wronged returns how often a live agent was seen as dead.
func (c *cluster) wronged() (n int) {
	for _, a := range c.agents {
		for _, b := range c.agents {
			if _, ok := a.saw(b.self.node, election.Dead); ok {
				n++
			}
		}
	}
	return n
}

func percentile(sorted []time.Duration, p int) time.Duration {
	return sorted[min(len(sorted)-1, len(sorted)*p/100)]
}

// These tests use the time of the bubble, which does not depend on the machine.
func TestADeadNodeIsDetectedWithinASecond(t *testing.T) {
	for _, tt := range []struct {
		nodes, kills, clusters int
		most                   time.Duration
	}{
		{2, 1, 5, 450 * time.Millisecond},
		{4, 2, 10, 450 * time.Millisecond},
		{10, 6, 2, 500 * time.Millisecond},
		{30, 5, 1, 500 * time.Millisecond},
	} {
		var times []time.Duration
		wrong := 0
		for range tt.clusters {
			inCluster(t, tt.nodes, func(c *cluster) {
				c.pass(10 * time.Second)
				more, w := kill(c, tt.kills, 1)
				times, wrong = append(times, more...), wrong+w
			})
		}
		slices.Sort(times)
		if p99 := percentile(times, 99); p99 > tt.most || wrong > 0 {
			t.Errorf("%d nodes: a death is detected after %v to %v, and live nodes were seen as dead %d times", tt.nodes, times[0], p99, wrong)
		}
	}
}

func TestAPauseOf100MillisecondsIsNoDeath(t *testing.T) {
	for _, nodes := range []int{2, 4, 10} {
		inCluster(t, nodes, func(c *cluster) {
			c.pass(10 * time.Second)
			for i := range 40 {
				c.agents[i%nodes].port.hold(100 * time.Millisecond)
				c.pass(time.Second)
			}
			expect.Equal(t, fmt.Sprintf("%d nodes: live nodes seen as dead", nodes), c.wronged(), 0)
		})
	}
}
