package gossip

import (
	"testing"
	"time"

	"purelb.io/purelb/internal/nodes/detector"
)

func TestIdleAgentsSendOnlyHeartbeatsAndProbes(t *testing.T) {
	for _, nodes := range []int{2, 4, 10} {
		inCluster(t, nodes, func(c *cluster) {
			c.pass(10 * time.Second)
			sent := func() (n uint64) {
				for _, a := range c.agents {
					n += a.Health().PacketsOut.Load()
				}
				return n
			}
			before := sent()
			c.pass(10 * time.Second)
			each := float64(sent()-before) / float64(nodes) / 10
			timing := (Timing{}).withDefaults()
			most := detector.Watchers/timing.Beat.Seconds() + 2/timing.Probe.Seconds()
			if each > 1.01*most {
				t.Errorf("each of %d nodes sends %.1f packets a second, want at most %.1f: its heartbeats, and a ping and an ack for each Probe", nodes, each, most)
			}
		})
	}
}
