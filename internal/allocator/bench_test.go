package allocator_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/service"
)

// bulk is how many Services are there before the allocator starts, and
// concurrency how many are written at a time, by the allocator as by the floor.
const (
	bulk        = 2000
	concurrency = 16
)

// mostOverFloor is how many times as long as the floor the allocator may take.
const mostOverFloor = 1.3

// BenchmarkBulkAllocate measures from the start of the allocator to the last of
// 2,000 addresses, against a bare loop that writes the same patches to as many
// Services. The loop runs before and after each measurement, which counts
// against the mean of the two, so that what else the machine does meanwhile
// weighs on both; of several measurements the median counts.
func BenchmarkBulkAllocate(b *testing.B) {
	w := newWorld(b)
	w.create(w.local("default", "10.64.0.0/16", "10.64.0.0/16"))
	const rounds = 5
	for b.Loop() {
		var ratios, speeds []float64
		before := w.with(w.writeAll)
		for range rounds {
			allocation, after := w.with(w.allocateAll), w.with(w.writeAll)
			floor := (before + after) / 2
			b.Logf("%d allocations in %s, bare patches in %s and %s", bulk, allocation, before, after)
			ratios = append(ratios, allocation.Seconds()/floor.Seconds())
			speeds = append(speeds, bulk/allocation.Seconds())
			before = after
		}
		slices.Sort(ratios)
		slices.Sort(speeds)
		ratio := ratios[rounds/2]
		fmt.Printf("RESULT bulk_allocate_vs_floor %.3f x\n", ratio)
		fmt.Printf("RESULT bulk_allocate_per_second %.0f 1/s\n", speeds[rounds/2])
		b.ReportMetric(ratio, "x-floor")
		if ratio > mostOverFloor {
			b.Errorf("allocating takes %.3f times as long as bare patches; at most %.1f is wanted", ratio, mostOverFloor)
		}
	}
}

// with makes Services, measures what is done to them, and removes them.
func (w *world) with(measure func([]corev1.Service) time.Duration) time.Duration {
	w.Helper()
	w.each(bulk, func(i int) error {
		svc := balancer(fmt.Sprintf("bulk-%04d", i))
		svc.Spec.AllocateLoadBalancerNodePorts = new(bool)
		return w.client.Create(context.Background(), svc)
	})
	made := w.services()
	took := measure(made)
	w.settled(bulk)
	w.exclusive()
	w.each(len(made), func(i int) error { return w.client.Delete(context.Background(), &made[i]) })
	return took
}

// writeAll is the floor: it does nothing but write what an allocator would.
func (w *world) writeAll(services []corev1.Service) time.Duration {
	w.Helper()
	cfg := *w.cfg
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	clients, err := kubernetes.NewForConfig(&cfg)
	must(w, err)
	patches := make([][]byte, len(services))
	for i := range services {
		a := addr.NumberOf(netip.MustParseAddr("10.64.0.0")).Plus(uint64(i) + 1).Addr(addr.V4)
		patches[i], err = service.Result{
			Addresses: []netip.Addr{a}, From: "default", PoolType: service.PoolLocal,
			Allocated: true, Reason: "Allocated", Message: "Assigned " + a.String() + " from pool default",
		}.Patch(&services[i], time.Now())
		must(w, err)
	}
	start := time.Now()
	w.each(len(services), func(i int) error {
		_, err := clients.CoreV1().Services(services[i].Namespace).Patch(context.Background(), services[i].Name,
			types.MergePatchType, patches[i], metav1.PatchOptions{}, "status")
		return err
	})
	return time.Since(start)
}

// allocateAll starts an allocator and waits until all Services have an address.
func (w *world) allocateAll([]corev1.Service) time.Duration {
	w.Helper()
	start := time.Now()
	r := w.allocator()
	defer r.stop()
	for r.counter("purelb_k8s_client_updates_total") < bulk {
		if time.Since(start) > 5*time.Minute {
			w.Fatal("the Services do not get their addresses")
		}
		time.Sleep(25 * time.Millisecond)
	}
	return time.Since(start)
}

// each does something n times, so many at a time.
func (w *world) each(n int, do func(i int) error) {
	w.Helper()
	var wg sync.WaitGroup
	turns, errs := make(chan int), make(chan error, concurrency)
	for range concurrency {
		wg.Go(func() {
			for i := range turns {
				if err := do(i); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	defer wg.Wait()
	defer close(turns)
	for i := range n {
		select {
		case turns <- i:
		case err := <-errs:
			w.Fatal(err)
		}
	}
}
