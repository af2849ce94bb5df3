package allocate_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/service"
)

// asks changes the requested addresses of svc.
func (w *world) asks(svc client.Object, addresses string) {
	w.Helper()
	w.patch(svc, `{"metadata":{"annotations":{"purelb.io/addresses":%q}}}`, addresses)
}

// messages returns the events about o with this reason, in order. Each event is repeated as often
// as its count says.
func (w *world) messages(o client.Object, reason string) []string {
	w.Helper()
	var all []string
	for _, e := range w.events(o) {
		if e.Reason == reason {
			all = append(all, slices.Repeat([]string{e.Message}, int(e.Count))...)
		}
	}
	return all
}

func TestAChangedRequestReplacesTheAddress(t *testing.T) {
	w := newWorld(t)
	w.create(w.small("default"), w.remote("far", "198.51.100.0/24", "198.51.100.0/24"))
	w.allocator()
	svc, waiting := balancer("svc"), balancer("waiting", annotated(service.AnnotationAddresses, "192.0.2.1"))
	w.allocate(svc, "192.0.2.1")
	w.create(waiting)
	w.says(waiting, "False", "AddressInUse", "already in use by default/svc")
	w.asks(svc, " 198.51.100.9 ")
	w.has(svc, "198.51.100.9")
	w.has(waiting, "192.0.2.1")
	w.tells(svc, "IPReleased", "Released IP 192.0.2.1 from pool default: replaced by 198.51.100.9")
	w.tells(svc, "IPAllocated", "Assigned IP 198.51.100.9 from pool far")
	w.annotation(fetch(w, svc), service.AnnotationAllocatedFrom, "far")
	w.asks(svc, "")
	w.says(svc, "True", "Allocated")
	w.has(svc, "198.51.100.9")
}

func TestReEvaluateReplacesOutdatedAddresses(t *testing.T) {
	w := newWorld(t)
	group := w.small("default").(*v2.ServiceGroup)
	w.create(group, w.remote("far", "198.51.100.0/24", "198.51.100.0/24"))
	w.allocator()
	svc, stays := balancer("svc"), balancer("stays")
	w.allocate(svc, "192.0.2.1")
	w.allocate(stays, "192.0.2.2")
	w.patch(svc, `{"metadata":{"annotations":{"purelb.io/service-group":"far"}}}`)
	w.says(svc, "True", "Allocated", "re-evaluate")
	w.has(svc, "192.0.2.1")
	for _, s := range []*corev1.Service{svc, stays} {
		w.patch(s, `{"metadata":{"annotations":{"purelb.io/re-evaluate":"true"}}}`)
	}
	w.has(svc, "198.51.100.1")
	w.tells(svc, "IPReleased", "Released IP 192.0.2.1 from pool default: replaced by 198.51.100.1")
	for _, s := range []*corev1.Service{svc, stays} {
		w.soon(func() error {
			if _, there := fetch(w, s).Annotations[service.AnnotationReevaluate]; there {
				return fmt.Errorf("%s still has the annotation", s.Name)
			}
			return nil
		})
	}
	w.has(stays, "192.0.2.2")
	w.allocate(balancer("next"), "192.0.2.1")
}

func TestMultiPoolServiceFillsUpLater(t *testing.T) {
	w := newWorld(t)
	group := w.local("default", "192.0.2.1-192.0.2.9", "192.0.2.0/24", "192.0.3.1-192.0.3.9", "192.0.3.0/24")
	group.Spec.Local.MultiPool = true
	w.create(group, w.lease("n1", "192.0.2.0/24"))
	r := w.allocator()
	svc := w.allocate(balancer("svc"), "192.0.2.1")
	w.hasEvent(svc, "IPAllocated", "Multi-pool: assigned 1 IPs from pool default")
	r.counts(1, "purelb_address_pool_multipool_partial_total", "pool=default")
	w.create(w.lease("n2", "192.0.3.0/24"))
	w.has(svc, "192.0.2.1 192.0.3.1")
	w.hasEvent(svc, "IPAllocated", "Incremental multi-pool: added 1 IPs (total 2) from pool default")
	w.allocate(balancer("one", annotated(service.AnnotationMultiPool, "false")), "192.0.2.2")
	w.allocate(balancer("whole"), "192.0.2.3 192.0.3.2")
	r.counts(3, "purelb_address_pool_multipool_allocations_total", "pool=default") // svc twice, and whole
}
