package gossip

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// mostDetect is the time within which 99 of 100 deaths must be detected in a cluster of any size. A
// probe of the segment follows. Together, a failover takes less than a second.
const mostDetect = 500 * time.Millisecond

// BenchmarkDetect measures clusters of several sizes: the time to detect a node that lost its power,
// and the traffic of an idle cluster. The members are real, but the network is in memory and the
// time is that of a synctest bubble. Two cores cannot run a thousand members in real time, and the
// benchmark measures the protocol, not the machine.
func BenchmarkDetect(b *testing.B) {
	// The last size prints RESULT gossip_1000_detect_p99_ms, which has a limit.
	for _, size := range []struct{ nodes, kills, machines, clusters int }{{3, 1, 1, 30}, {5, 3, 1, 10}, {100, 5, 1, 1}, {1000, 1, 10, 1}} {
		b.Run(strconv.Itoa(size.nodes), func(b *testing.B) {
			for b.Loop() {
				d := detection{nodes: size.nodes}
				for range size.clusters {
					d.measure(b, size.kills, size.machines)
				}
				d.report(b)
			}
		})
	}
}

// detection is the result for clusters of one size.
type detection struct {
	nodes          int
	times          []time.Duration // the detection times of all survivors and deaths
	wrong          int             // how often a survivor saw a live node as dead
	bytes, packets uint64          // the traffic of one member per second in an idle cluster
}

func (d *detection) measure(b *testing.B, kills, machines int) {
	b.Helper()
	inBubble(b, func(t *testing.T) {
		inClusterOf(t, d.nodes, func(c *cluster) {
			c.pass(8 * time.Second)
			h := c.agents[d.nodes-1].Health()
			bytes, packets := h.BytesOut.Load(), h.PacketsOut.Load()
			c.pass(time.Second)
			d.bytes, d.packets = h.BytesOut.Load()-bytes, h.PacketsOut.Load()-packets
			times, wrong := kill(c, kills, machines)
			d.times, d.wrong = append(d.times, times...), d.wrong+wrong
		})
	})
}

func (d *detection) report(b *testing.B) {
	b.Helper()
	if len(d.times) == 0 {
		b.Fatal("there are no detection times")
	}
	slices.Sort(d.times)
	p99 := percentile(d.times, 99)
	if p99 > mostDetect {
		b.Errorf("%d nodes: a death is detected after %v, want at most %v", d.nodes, p99, mostDetect)
	}
	b.ReportMetric(0, "ns/op")
	for _, r := range []string{
		fmt.Sprintf("detect_p50_ms %d ms", percentile(d.times, 50).Milliseconds()), fmt.Sprintf("detect_p99_ms %d ms", p99.Milliseconds()),
		fmt.Sprintf("wrong %d", d.wrong), fmt.Sprintf("idle_bytes_per_s %d B/s", d.bytes), fmt.Sprintf("idle_packets_per_s %d 1/s", d.packets),
	} {
		fmt.Printf("RESULT gossip_%d_%s\n", d.nodes, r)
	}
}

// inBubble runs f in a bubble. Only a test may have a bubble, so it runs f as a test.
func inBubble(b *testing.B, f func(*testing.T)) {
	b.Helper()
	all := func(string, string) (bool, error) { return true, nil }
	if !testing.RunTests(all, []testing.InternalTest{{Name: b.Name(), F: func(t *testing.T) { synctest.Test(t, f) }}}) {
		b.Fatal("the members of the cluster fail")
	}
}
