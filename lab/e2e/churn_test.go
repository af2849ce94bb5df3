package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"purelb.io/purelb/lab/kube"
)

// Promise: an address has one owner and stays with it. That holds while Services are created, changed
// and deleted, and while the allocator is killed.

const (
	churned = 1000 // the number of Services
	killed  = 3    // the number of kills of the allocator
)

// TestAllocatorKillsLoseAndDoubleNoAddress watches every state in the API server. Two Services
// must never have the same address. A Service may change its address only if it asked for another
// one.
func TestAllocatorKillsLoseAndDoubleNoAddress(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("PURELB_SEED"); text != "" {
		seed, _ = strconv.ParseUint(text, 10, 64)
	}
	t.Logf("PURELB_SEED=%d", seed)
	w := newWorldFor(t, 3*time.Minute)
	w.group("e2e-churn", `{remote: {v4pool: {subnet: 10.240.0.0/16, pool: 10.240.0.0/16, aggregation: /32}}}`)
	watcher := w.watch()

	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { w.killNowAndThen(done, rand.New(rand.NewPCG(seed, 0))) })
	var work sync.WaitGroup
	const hands = 8
	for hand := range hands {
		random := rand.New(rand.NewPCG(seed, uint64(hand)+1))
		work.Go(func() {
			for i := hand; i < churned; i += hands {
				if err := w.live(fmt.Sprintf("churn-%04d", i), random); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	work.Wait()
	close(done)
	wg.Wait()

	w.until(4*patience, "every remaining Service has an address", func() bool { return w.unserved() == 0 })
	w.freshAllocator()
	if broken := watcher.stop(); len(broken) > 0 {
		t.Errorf("in %d states of the API server: %v", watcher.states, broken)
	}
	t.Logf("watched %d states of Services", watcher.states)
}

// live creates a Service, changes it, and perhaps deletes it.
func (w *world) live(name string, random *rand.Rand) error {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{"purelb.io/service-group": "e2e-churn"}},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, AllocateLoadBalancerNodePorts: new(bool),
			Selector: map[string]string{"app": "nobody"}, Ports: []corev1.ServicePort{{Port: 80}},
		},
	}
	if err := w.Create(w.ctx, svc); err != nil {
		return err
	}
	patch := func(text string) error {
		return w.Patch(w.ctx, svc, client.RawPatch("application/merge-patch+json", []byte(text)))
	}
	switch random.IntN(6) {
	case 0:
		return w.Delete(w.ctx, svc)
	case 1:
		return patch(`{"spec":{"ports":[{"port":81}]}}`)
	case 2:
		if err := patch(`{"spec":{"type":"ClusterIP"}}`); err != nil {
			return err
		}
		return patch(`{"spec":{"type":"LoadBalancer","allocateLoadBalancerNodePorts":false}}`)
	case 3:
		return patch(`{"metadata":{"annotations":{"purelb.io/re-evaluate":"true"}}}`)
	}
	return nil
}

// killNowAndThen kills the allocator several times. It waits a random time after the allocator became
// the leader.
func (w *world) killNowAndThen(done <-chan struct{}, random *rand.Rand) {
	for range killed {
		select {
		case <-done:
			return
		case <-time.After(time.Duration(random.IntN(1500)) * time.Millisecond):
		}
		for !w.kill(w.leader()) {
			select {
			case <-w.ctx.Done():
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
}

// unserved returns the number of Services without an address.
func (w *world) unserved() (n int) {
	w.t.Helper()
	var list corev1.ServiceList
	if err := w.List(w.ctx, &list, client.InNamespace(namespace)); err != nil {
		w.t.Fatal(err)
	}
	for i := range list.Items {
		if list.Items[i].Spec.Type == corev1.ServiceTypeLoadBalancer && len(kube.Addresses(&list.Items[i])) == 0 {
			n++
		}
	}
	return n
}

// observer follows all states of the test's Services.
type observer struct {
	*following
	states int
	broken []string
	holder map[netip.Addr]string
	held   map[string]netip.Addr
}

func (w *world) watch() *observer {
	w.t.Helper()
	o := &observer{holder: map[netip.Addr]string{}, held: map[string]netip.Addr{}}
	o.following = w.followServices(o.see)
	return o
}

// see records one state of one Service.
func (o *observer) see(event watch.EventType, svc *corev1.Service) {
	o.states++
	var now netip.Addr
	if has := kube.Addresses(svc); len(has) > 0 && event != watch.Deleted && svc.Spec.Type == corev1.ServiceTypeLoadBalancer {
		now = has[0]
	}
	was := o.held[svc.Name]
	if was == now {
		return
	}
	if was.IsValid() {
		if now.IsValid() {
			o.broken = append(o.broken, fmt.Sprintf("%s had %s and has %s", svc.Name, was, now))
		}
		delete(o.holder, was)
	}
	o.held[svc.Name] = now
	if !now.IsValid() {
		return
	}
	if other, taken := o.holder[now]; taken {
		o.broken = append(o.broken, fmt.Sprintf("%s and %s both have %s", other, svc.Name, now))
	}
	o.holder[now] = svc.Name
}

// stop ends the watch and returns the violations.
func (o *observer) stop() []string {
	if err := o.end(); err != nil {
		o.broken = append(o.broken, err.Error())
	}
	return o.broken
}
