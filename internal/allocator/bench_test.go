package allocator_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
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

// BenchmarkBulkAllocate measures from the start of the allocator to the last of
// 2,000 addresses, against a bare loop that writes the same patches to as many
// Services. The loop runs before and after, and the mean of both counts, so that
// what else the machine does meanwhile weighs on both sides.
func BenchmarkBulkAllocate(b *testing.B) {
	w := newWorld(b)
	w.create(w.local("default", "10.64.0.0/16", "10.64.0.0/16"))
	for b.Loop() {
		before := w.with(w.writeAll)
		allocation := w.with(w.allocateAll)
		w.with(w.allocateAll)
		after := w.with(w.writeAll)
		w.with(w.allocateAll)
		w.with(w.writeAll)
		fmt.Println(before, allocation, after)
		floor := (before + after) / 2
		ratio := allocation.Seconds() / floor.Seconds()
		fmt.Printf("RESULT bulk_allocate_vs_floor %.3f x\n", ratio)
		fmt.Printf("RESULT bulk_allocate_per_second %.0f 1/s\n", bulk/allocation.Seconds())
		b.ReportMetric(ratio, "x-floor")
		if ratio > 1.3 {
			b.Errorf("%d allocations took %s, %.2f times the %s of bare patches; at most 1.3 is wanted", bulk, allocation, ratio, floor)
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
	c0 := cpu()
	took := measure(made)
	c1 := cpu()
	for k, v := range c1 {
		fmt.Printf("%s=%.2f ", k, float64(v-c0[k])/100)
	}
	fmt.Println(took)
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
		time.Sleep(10 * time.Millisecond)
	}
	took := time.Since(start)
	return took
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

func cpu() map[string]int {
	out := map[string]int{}
	dirs, _ := os.ReadDir("/proc")
	me := os.Getpid()
	for _, d := range dirs {
		pid, err := strconv.Atoi(d.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile("/proc/" + d.Name() + "/stat")
		if err != nil {
			continue
		}
		t := string(b)
		name := t[strings.Index(t, "(")+1 : strings.LastIndex(t, ")")]
		f := strings.Fields(t[strings.LastIndex(t, ")")+2:])
		ppid, _ := strconv.Atoi(f[1])
		u, _ := strconv.Atoi(f[11])
		sy, _ := strconv.Atoi(f[12])
		if pid == me {
			out["self"] += u + sy
		} else if ppid == me {
			cl, _ := os.ReadFile("/proc/" + d.Name() + "/cmdline")
			if strings.Contains(string(cl), "etcd-servers") {
				name = "apiserver"
			} else {
				name = "etcd"
			}
			out[name] += u + sy
		} else {
			out["rest"] += u + sy
		}
	}
	return out
}
