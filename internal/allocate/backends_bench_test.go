package allocate_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/testing/netboxtest"
)

// BenchmarkLocalBesideADeadNetBox measures how long Services of a local group wait for
// their addresses while 200 other Services wait for a NetBox that never answers. It
// compares this with the time without those 200. The two measurements alternate, so that
// other load on the machine affects both.
func BenchmarkLocalBesideADeadNetBox(b *testing.B) {
	const turns, burst, waiting = 5, 200, 200
	w := newWorld(b)
	w.create(w.local("default", "198.51.100.0/22", "198.51.100.0/22"))
	w.allocator()
	hang := make(chan struct{})
	dead := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	b.Cleanup(func() { close(hang); dead.Close() })
	slow := w.groupOf("box", v2.ServiceGroupSpec{Netbox: &v2.NetboxSpec{URL: dead.URL}})
	(&box{world: w}).token(netboxtest.AdminToken)

	// allocate returns the time from the creation of the first Service to the last address.
	allocate := func() time.Duration {
		start := time.Now()
		w.each(burst, func(i int) error { return w.client.Create(b.Context(), balancer(fmt.Sprintf("local-%d", i))) })
		w.settled(burst)
		took := time.Since(start)
		w.each(burst, func(i int) error { return w.client.Delete(b.Context(), balancer(fmt.Sprintf("local-%d", i))) })
		return took
	}
	for b.Loop() {
		var ratios []float64
		allocate() // warm up
		for range turns {
			alone := allocate()
			w.create(slow.DeepCopy()) // create stores the API server's answer in its argument
			w.each(waiting, func(i int) error {
				return w.client.Create(b.Context(), balancer(fmt.Sprintf("remote-%d", i), inGroup("box")))
			})
			w.says(balancer(fmt.Sprintf("remote-%d", waiting-1)), "False", ipam.ReasonBackend)
			ratios = append(ratios, allocate().Seconds()/alone.Seconds())
			w.each(waiting, func(i int) error { return w.client.Delete(b.Context(), balancer(fmt.Sprintf("remote-%d", i))) })
			w.remove(slow)
		}
		slices.Sort(ratios)
		median := ratios[len(ratios)/2]
		fmt.Printf("RESULT local_alloc_with_dead_netbox_vs_without %.3f x\n", median)
		b.ReportMetric(median, "local_alloc_with_dead_netbox_vs_without")
		if median > 1.1 {
			b.Errorf("local addresses take %.3f times as long while NetBox is dead, want at most 1.1", median)
		}
	}
}
