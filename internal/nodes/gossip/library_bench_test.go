package gossip

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"
)

// BenchmarkLibraryAlone runs the scenes of BenchmarkDetect with the library's own failure detector
// and with ours. It also counts the live agents that are seen as dead when packets are lost or
// agents pause. Without our detector, a packet wakes its receiver, which reads it after five
// milliseconds. A suspicion lasts as long as ours, or longer if the library itself waits longer.
func BenchmarkLibraryAlone(b *testing.B) {
	for _, nodes := range []int{4, 100} {
		for _, probe := range []time.Duration{0, 50 * time.Millisecond, 100 * time.Millisecond, 150 * time.Millisecond} {
			b.Run(fmt.Sprintf("%d/%v", nodes, probe), func(b *testing.B) {
				for b.Loop() {
					libraryAlone(b, nodes, probe)
				}
			})
		}
	}
}

// libraryAlone measures clusters of nodes with the library's detector, or with our detector
// if probe is 0.
func libraryAlone(b *testing.B, nodes int, probe time.Duration) {
	b.Helper()
	kills := min(nodes/2, 5)
	d := detection{nodes: nodes}
	for range 100 / nodes {
		inBubble(b, func(t *testing.T) { inClusterAlone(t, nodes, probe, func(c *cluster) { d.kills(c, kills) }) })
	}
	lossy, still := 0, 0
	inBubble(b, func(t *testing.T) {
		inClusterAlone(t, nodes, probe, func(c *cluster) {
			c.ether.lose(2)
			c.pass(30 * time.Second)
			lossy = c.wronged()
		})
	})
	inBubble(b, func(t *testing.T) {
		inClusterAlone(t, nodes, probe, func(c *cluster) {
			for i := range 20 {
				c.agents[i%nodes].port.hold(100 * time.Millisecond)
				c.pass(time.Second)
			}
			still = c.wronged()
		})
	})
	name := "ours"
	if probe > 0 {
		name = fmt.Sprintf("library_%d_ms", probe.Milliseconds())
	}
	slices.Sort(d.times)
	for _, r := range []string{
		fmt.Sprintf("detect_p50_ms %d ms", percentile(d.times, 50).Milliseconds()), fmt.Sprintf("detect_p99_ms %d ms", percentile(d.times, 99).Milliseconds()),
		fmt.Sprintf("idle_packets_per_s %d 1/s", d.packets), fmt.Sprintf("wrong_at_loss %d", lossy), fmt.Sprintf("wrong_at_pauses %d", still),
	} {
		fmt.Printf("RESULT gossip_%d_%s_%s\n", nodes, name, r)
	}
}

// kills measures one idle second and then several deaths.
func (d *detection) kills(c *cluster, kills int) {
	last := c.agents[len(c.agents)-1]
	before := last.Health().PacketsOut
	c.pass(10 * time.Second)
	d.packets = (last.Health().PacketsOut - before) / 10
	times, wrong := kill(c, kills, 1)
	d.times, d.wrong = append(d.times, times...), d.wrong+wrong
}

// inClusterAlone is inClusterOf with agents that announce no heartbeats. So only the library's
// probes detect a death.
func inClusterAlone(t *testing.T, nodes int, probe time.Duration, f func(*cluster)) {
	c := &cluster{t: t, ether: newEther()}
	for i := range nodes {
		a := c.start(fmt.Sprintf("node-%03d", i), i, func(o *Options) {
			if probe > 0 {
				suspicion := time.Duration(float64(probe) * max(1, math.Log10(float64(nodes))))
				o.Timing = Timing{Beat: 5 * time.Millisecond, Probe: probe, Silence: max(time.Millisecond, 150*time.Millisecond-suspicion)}
			}
		})
		if probe > 0 {
			record := Record{}.encode(supported, DefaultPatience)
			record[flagsAt] &^= flagBeats
			a.replace(record)
		}
	}
	c.pass(8 * time.Second)
	f(c)
	c.end()
}
