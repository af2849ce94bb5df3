package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
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
// and deleted, and while the leading allocator is killed.

// TestASecondAllocatorTakesOver kills the leader at a random moment of its work, and watches every
// state in the API server. Two Services must never have the same address. A Service may change its
// address only if it asked for another one.
func TestASecondAllocatorTakesOver(t *testing.T) {
	w := newWorld(t)
	w.group("e2e-churn", `{remote: {v4pool: {subnet: 10.240.0.0/16, pool: 10.240.0.0/16, aggregation: /32}}}`)
	w.allocators(2)
	leader, watcher := w.leadingPod().Name, w.watch()
	const services = 400
	var work sync.WaitGroup
	work.Go(func() { w.inHands(services, func(i int) error { return w.live(fmt.Sprintf("churn-%03d", i)) }) })
	time.Sleep(time.Duration(rand.IntN(1500)) * time.Millisecond) // the kill may come at any moment
	began, killed := time.Now(), w.kill(leader)
	work.Wait()
	if !killed {
		t.Fatalf("there is no process of %s to kill", leader)
	}
	w.until(2*patience, "every remaining Service has an address", func() bool { return w.unserved() == 0 })
	t.Logf("every remaining Service had an address %s after the leader was killed", time.Since(began).Round(time.Millisecond))
	if broken := watcher.stop(); len(broken) > 0 {
		t.Errorf("in %d states of the API server: %v", watcher.states, broken)
	}
	t.Logf("watched %d states of Services", watcher.states)
}

// live creates a Service, changes it, and perhaps deletes it.
func (w *world) live(name string) error {
	if err := w.create(name, "e2e-churn", corev1.IPFamilyPolicySingleStack); err != nil {
		return err
	}
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	patch := func(text string) error {
		return w.Patch(w.ctx, svc, client.RawPatch("application/merge-patch+json", []byte(text)))
	}
	switch rand.IntN(6) {
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
