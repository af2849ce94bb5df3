package e2e

import (
	"fmt"
	"syscall"
	"testing"
	"time"
)

const (
	// kills is the number of nodes that lose their power in the benchmark.
	kills = 20
	// reboots is the number of power cuts in each of the slower benchmarks.
	reboots = 8
)

// BenchmarkFailover repeatedly cuts the power of the node that holds two local addresses, one of each
// family. It measures the time for which a client behind the router gets no answer. The client sends
// a datagram every 10 ms, so the router's neighbor entries for the addresses are fresh. Without a
// gratuitous ARP, the router would keep the MAC of the dead node for many seconds.
func BenchmarkFailover(b *testing.B) {
	gaps := gapsWhen(b, kills, func(*world, string) {})
	fmt.Printf("RESULT failover_power_loss_p50_ms %.0f ms\n", percentile(gaps, 50))
	fmt.Printf("RESULT failover_power_loss_p99_ms %.0f ms\n", percentile(gaps, 99))
}

// BenchmarkReboot is BenchmarkFailover with reboots: the programs of the node get SIGTERM, and the
// power goes later.
func BenchmarkReboot(b *testing.B) {
	gaps := gapsWhen(b, reboots, func(w *world, node string) {
		w.endPrograms(node)
		time.Sleep(unmounting)
	})
	fmt.Printf("RESULT failover_reboot_p99_ms %.0f ms\n", percentile(gaps, 99))
}

// BenchmarkGracefulReboot is BenchmarkReboot with a kubelet that has shutdownGracePeriod.
func BenchmarkGracefulReboot(b *testing.B) {
	gaps := gapsWhen(b, reboots, func(w *world, node string) {
		w.endPods(node, 100*time.Millisecond)
		time.Sleep(5 * time.Second) // half of the time in which pods must end
	})
	fmt.Printf("RESULT failover_graceful_reboot_p99_ms %.0f ms\n", percentile(gaps, 99))
}

// BenchmarkDeadAgent is BenchmarkFailover for nodes whose agent ended long before the power cut. It
// did not restart, and counts as dead.
func BenchmarkDeadAgent(b *testing.B) {
	gaps := gapsWhen(b, reboots, func(w *world, node string) {
		if err := lab.Signal(node, "kubelet", syscall.SIGKILL); err != nil {
			b.Fatal(err)
		}
		w.killProcess("lbnodeagent", "PURELB_NODE_NAME="+node)
		time.Sleep(17 * time.Second)
	})
	fmt.Printf("RESULT failover_dead_agent_then_power_p99_ms %.0f ms\n", percentile(gaps, 99))
}

// gapsWhen cuts the power of the holder of two addresses n times. It returns the time without an
// answer for each address and each cut. It calls before ahead of each cut.
func gapsWhen(b *testing.B, n int, before func(w *world, node string)) (gaps []time.Duration) {
	b.Helper()
	w := newWorld(b)
	s := watchLocal(w)
	for b.Loop() {
		for i := range n {
			victim := s.holder()
			s.begin()
			before(w, victim)
			w.crash(victim)
			time.Sleep(3 * time.Second)
			for j, p := range s.probes {
				r := p.Stop()
				b.Logf("%d: %s of %s: %s", i, s.addresses[j], victim, r)
				gaps = append(gaps, r.LongestGap)
			}
			lab.boot(b, victim)
			w.agentReady(victim)
			s.elsewhere(victim)
			s.answers(s.addresses...)
		}
	}
	return gaps
}
