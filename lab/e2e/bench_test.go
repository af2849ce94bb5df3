package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"purelb.io/purelb/lab/kube"
)

// samples is large enough for a 99th percentile, and small enough for a short run.
const samples = 300

// BenchmarkCreate creates Services one after another. It measures the time from the API server's
// answer to the create request until a watch delivers the address. The result is a ratio: that time
// divided by the time of a bare patch of a status. Both are measured in turns, so that other load
// slows both. A second ratio uses the time until the address is on kube-lb0 of every node. The
// absolute times are only for information, because the machine is shared.
func BenchmarkCreate(b *testing.B) {
	w := newWorld(b)
	w.group("e2e-bench", `{remote: {v4pool: {subnet: 10.241.0.0/16, pool: 10.241.0.0/16, aggregation: /32}}}`)
	statuses, interfaces := w.statuses(), w.wires()
	bare := w.bench("bare", corev1.ServiceTypeClusterIP)
	var patches, toAddress, toEach, toLast, whole []time.Duration
	for b.Loop() {
		for i := range samples {
			patches = append(patches, w.patchBare(bare, i))
			confirmed, began := w.createTimed(fmt.Sprintf("bench-%04d", i))
			seen := statuses.await(b, fmt.Sprintf("bench-%04d", i))
			toAddress = append(toAddress, max(0, seen.at.Sub(confirmed)))
			landed := interfaces.await(seen.address)
			for _, at := range landed {
				toEach = append(toEach, at.Sub(began))
			}
			toLast = append(toLast, landed[len(landed)-1].Sub(began))
			whole = append(whole, seen.at.Sub(began))
		}
		w.empty()
	}
	patch := percentile(patches, 50)
	fmt.Printf("RESULT create_to_address_p50_vs_patch %.2f x\n", percentile(toAddress, 50)/patch)
	fmt.Printf("RESULT create_to_address_p99_vs_patch %.2f x\n", percentile(toAddress, 99)/percentile(patches, 99))
	// All machines of the lab share its CPUs, so the last agent has waited for the other agents.
	fmt.Printf("RESULT create_to_interface_vs_address %.2f x\n", percentile(toLast, 50)/percentile(whole, 50))
	fmt.Printf("RESULT create_to_each_interface_vs_address %.2f x\n", percentile(toEach, 50)/percentile(whole, 50))
	fmt.Printf("RESULT create_request_to_address_p50_ms %.1f ms\n", percentile(whole, 50))
	fmt.Printf("RESULT bare_patch_p50_ms %.1f ms\n", patch)
}

// percentile returns a percentile of d in milliseconds.
func percentile(d []time.Duration, p int) float64 {
	d = slices.Sorted(slices.Values(d))
	return float64(d[(len(d)-1)*p/100].Microseconds()) / 1000
}

// bench returns a Service of the benchmark.
func (w *world) bench(name string, kind corev1.ServiceType) *corev1.Service {
	w.t.Helper()
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{"purelb.io/service-group": "e2e-bench"}},
		Spec: corev1.ServiceSpec{
			Type: kind, Selector: map[string]string{"app": "nobody"}, Ports: []corev1.ServicePort{{Port: 80}},
		},
	}
	if err := w.Create(w.ctx, svc); err != nil {
		w.t.Fatal(err)
	}
	return svc
}

func (w *world) createTimed(name string) (confirmed, began time.Time) {
	began = time.Now()
	w.bench(name, corev1.ServiceTypeLoadBalancer)
	return time.Now(), began
}

// patchBare patches the status of a Service that no controller serves. The patch is as large as that
// of an allocation.
func (w *world) patchBare(svc *corev1.Service, i int) time.Duration {
	w.t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"example.com/allocated-by":"nobody","example.com/allocated-from":"e2e-bench-%d"}},`+
		`"status":{"conditions":[{"type":"example.com/Allocated","status":"True","reason":"Allocated","message":"Assigned 10.241.%d.%d",`+
		`"lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, i, i/256, i%256)
	began := time.Now()
	if err := w.Status().Patch(w.ctx, svc, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		w.t.Fatal(err)
	}
	return time.Since(began)
}

// arrivals are the times at which Services first had an address.
type arrivals struct {
	seen chan arrival
	at   map[string]arrival
}

type arrival struct {
	name    string
	address netip.Addr
	at      time.Time
}

// statuses watches for addresses until the test ends.
func (w *world) statuses() *arrivals {
	w.t.Helper()
	watching, err := lab.watching()
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.ctx)
	w.t.Cleanup(cancel)
	events, err := watching.Watch(ctx, &corev1.ServiceList{}, client.InNamespace(namespace))
	if err != nil {
		w.t.Fatal(err)
	}
	a := &arrivals{seen: make(chan arrival, samples), at: map[string]arrival{}}
	go func() {
		defer close(a.seen)
		for e := range events.ResultChan() {
			if svc, ok := e.Object.(*corev1.Service); ok && len(kube.Addresses(svc)) > 0 {
				a.seen <- arrival{svc.Name, kube.Addresses(svc)[0], time.Now()}
			}
		}
	}()
	return a
}

// await waits for the address of a Service. It returns the address and the time of its arrival.
func (a *arrivals) await(b *testing.B, name string) arrival {
	b.Helper()
	for a.at[name].at.IsZero() {
		next, ok := <-a.seen
		if !ok {
			b.Fatal("the watch ended early")
		}
		if a.at[next.name].at.IsZero() {
			a.at[next.name] = next
		}
	}
	return a.at[name]
}
