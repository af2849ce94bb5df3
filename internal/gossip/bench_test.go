package gossip

import (
	"fmt"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// BenchmarkDetect measures, for clusters of several sizes, after what time the
// others see a node dead that lost its power, and what gossip costs while nothing
// happens. The members are real ones, but the network is in memory and the time
// is that of a bubble: a thousand of them are more than two cores can run in real
// time, and what is measured is the protocol, not this machine.
func BenchmarkDetect(b *testing.B) {
	for _, size := range []struct{ nodes, kills, machines int }{{4, 2, 1}, {100, 5, 1}, {1000, 1, 10}} {
		b.Run(strconv.Itoa(size.nodes), func(b *testing.B) {
			for b.Loop() {
				reportDetect(b, size.nodes, size.kills, size.machines)
			}
		})
	}
}

func reportDetect(b *testing.B, nodes, kills, machines int) {
	var times []time.Duration
	var wrong int
	var bytes, packets uint64
	inBubble(b, func(t *testing.T) {
		inClusterOf(t, nodes, func(c *cluster) {
			c.pass(6 * time.Second)
			before := c.agents[nodes-1].Health()
			c.pass(2 * time.Second)
			after := c.agents[nodes-1].Health()
			bytes, packets = (after.BytesOut-before.BytesOut)/2, (after.PacketsOut-before.PacketsOut)/2
			times, wrong = kill(c, kills, machines)
		})
	})
	slices.Sort(times)
	if len(times) == 0 {
		b.Fatal("nothing was measured")
	}
	b.ReportMetric(0, "ns/op")
	for _, r := range []struct {
		name  string
		value any
	}{
		{"detect_p50_ms", percentile(times, 50).Milliseconds()}, {"detect_p99_ms", percentile(times, 99).Milliseconds()},
		{"wrong", wrong}, {"idle_bytes_per_s", bytes}, {"idle_packets_per_s", packets},
	} {
		fmt.Printf("RESULT gossip_%d_%s %v\n", nodes, r.name, r.value)
	}
}

// inBubble runs f as a test, which alone may have a bubble, from a benchmark.
func inBubble(b *testing.B, f func(*testing.T)) {
	b.Helper()
	all := func(string, string) (bool, error) { return true, nil }
	if !testing.RunTests(all, []testing.InternalTest{{Name: b.Name(), F: func(t *testing.T) { synctest.Test(t, f) }}}) {
		b.Fatal("the members of the cluster fail")
	}
}

// BenchmarkIdle measures what one agent of four costs this machine while nothing
// happens: on the real network, in real time.
func BenchmarkIdle(b *testing.B) {
	const nodes, seconds = 4, 10
	t := &testing.T{}
	at := loopback()
	first := startReal(t, "node-0", at)
	for i := 1; i < nodes; i++ {
		r := startReal(t, fmt.Sprintf("node-%d", i), loopback(), at)
		defer r.stop()
	}
	defer first.stop()
	for len(first.Members()) < nodes {
		<-first.Changed()
	}
	for b.Loop() {
		before := cpu()
		time.Sleep(seconds * time.Second)
		percent := (cpu() - before).Seconds() / seconds / nodes * 100
		fmt.Printf("RESULT gossip_idle_cpu_percent %.2f\n", percent)
	}
}

// cpu is the time that this process has used of it.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
