package allocate_test

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkContest counts how often the allocator writes in a minute to a Service whose
// status another controller changes back at once.
func BenchmarkContest(b *testing.B) {
	w, r := smallWorld(b)
	for b.Loop() {
		svc := w.allocate(balancer("contested"), "192.0.2.1")
		before := r.counter("purelb_k8s_client_updates_total")
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			if addressesOf(fetch(w, svc)) != "203.0.113.9" {
				w.gives(svc, "203.0.113.9")
			}
		}
		n := r.counter("purelb_k8s_client_updates_total") - before
		fmt.Printf("RESULT contest_writes_per_minute %.0f writes\n", n)
		b.ReportMetric(n, "contest_writes_per_minute")
		if n > 8 {
			b.Errorf("the allocator wrote %.0f times in a minute, want at most 8", n)
		}
		w.remove(svc)
	}
}
