package e2e

import (
	"fmt"
	"testing"
	"time"
)

// kills are how many nodes lose their power in the benchmark.
const kills = 20

// BenchmarkFailover cuts the power of the node that holds two local addresses,
// one of each family, again and again, and measures how long a client behind
// the router is not answered. It asks every 10 ms, so the router's neighbour
// entries for the addresses are warm: without a claim on the wire it would keep
// the dead node's hardware address for many seconds.
func BenchmarkFailover(b *testing.B) {
	w := newWorld(b)
	s := watchLocal(w)
	var gaps []time.Duration
	for b.Loop() {
		for i := range kills {
			victim := s.holder()
			s.begin()
			lab.crash(b, victim)
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
	fmt.Printf("RESULT failover_power_loss_p50_ms %.0f ms\n", percentile(gaps, 50))
	fmt.Printf("RESULT failover_power_loss_p99_ms %.0f ms\n", percentile(gaps, 99))
}
