package allocator_test

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
	w.create(svc)
	w.has(svc, "192.0.2.1")
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

func TestRefusedRequestKeepsTheAddress(t *testing.T) {
	w := newWorld(t)
	w.create(w.small("default"))
	w.allocator()
	svc, other := balancer("svc"), balancer("other")
	w.create(svc)
	w.has(svc, "192.0.2.1")
	w.create(other)
	w.has(other, "192.0.2.2")
	for _, refused := range []struct{ asked, reason, text string }{
		{"10.9.8.7", "AddressOutsidePools", "10.9.8.7"},
		{"2001:db8::1", "WrongFamily", "2001:db8::1"},
		{"nonsense", "InvalidRequest", `"nonsense" is not an IP address`},
		{"192.0.2.2", "AddressInUse", "already in use by default/other"},
	} {
		w.asks(svc, refused.asked)
		w.says(svc, "False", refused.reason, "192.0.2.1", refused.text)
		w.has(svc, "192.0.2.1")
		w.hasEvent(svc, "AllocationFailed", refused.text)
	}
	w.remove(other)
	w.has(svc, "192.0.2.2")
	w.says(svc, "True", "Allocated")
}

func TestDualStackWithOneRequestedAddress(t *testing.T) {
	w := newWorld(t)
	w.create(w.small("default"))
	w.allocator()
	svc := balancer("svc", dualStack("RequireDualStack"), func(svc *corev1.Service) { svc.Spec.LoadBalancerIP = "192.0.2.2" })
	w.create(svc)
	w.has(svc, "192.0.2.2 2001:db8::1")
	w.hasEvent(svc, "DeprecationWarning", "spec.loadBalancerIP", "purelb.io/addresses")
	w.patch(svc, `{"metadata":{"labels":{"touched":"yes"}}}`)
	next := balancer("next")
	w.create(next)
	w.has(next, "192.0.2.1")
	if n := len(w.messages(svc, "DeprecationWarning")); n != 1 {
		t.Errorf("%d events say that the field is deprecated, want 1", n)
	}
	w.asks(svc, "192.0.2.2,2001:db8::2")
	w.has(svc, "192.0.2.2 2001:db8::2")
}

func TestReEvaluateReplacesOutdatedAddresses(t *testing.T) {
	w := newWorld(t)
	group := w.small("default").(*v2.ServiceGroup)
	w.create(group, w.remote("far", "198.51.100.0/24", "198.51.100.0/24"))
	w.allocator()
	svc, stays := balancer("svc"), balancer("stays")
	w.create(svc)
	w.has(svc, "192.0.2.1")
	w.create(stays)
	w.has(stays, "192.0.2.2")
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
	next := balancer("next")
	w.create(next)
	w.has(next, "192.0.2.1")
}

func TestReEvaluateWaitsForAReplacement(t *testing.T) {
	w := newWorld(t)
	w.create(w.local("default", "192.0.2.1-192.0.2.1", "192.0.2.0/24"), w.local("blue", "192.0.3.1-192.0.3.1", "192.0.3.0/24"))
	w.allocator()
	svc, full := balancer("svc"), balancer("full", inGroup("blue"))
	w.create(svc, full)
	w.has(svc, "192.0.2.1")
	w.has(full, "192.0.3.1")
	w.patch(svc, `{"metadata":{"annotations":{"purelb.io/service-group":"blue","purelb.io/re-evaluate":"true"}}}`)
	w.hasEvent(svc, "AllocationFailed", "exhausted")
	w.has(svc, "192.0.2.1")
	w.remove(full)
	w.has(svc, "192.0.3.1")
	w.soon(func() error {
		if _, there := fetch(w, svc).Annotations[service.AnnotationReevaluate]; there {
			return errNotYet
		}
		return nil
	})
}

func TestDrainingPoolGivesNothingNew(t *testing.T) {
	w := newWorld(t)
	group := w.small("default").(*v2.ServiceGroup)
	group.Spec.Local.V4Pools = append(group.Spec.Local.V4Pools, v2.AddressPool{Pool: "192.0.2.100-192.0.2.101", Subnet: "192.0.2.0/24", Exclude: []v2.Exclusion{"192.0.2.100"}})
	w.create(group)
	w.allocator()
	old := balancer("old")
	w.create(old)
	w.has(old, "192.0.2.1")
	group.Spec.Local.V4Pools[0].Drain = true
	// The allocator writes the status of the group in the meantime.
	w.soon(func() error { return w.client.Update(t.Context(), fetchSpec(w, group)) })
	young, pinned, excluded := balancer("young"), balancer("pinned", annotated(service.AnnotationAddresses, "192.0.2.2")),
		balancer("excluded", annotated(service.AnnotationAddresses, "192.0.2.100"))
	w.soon(func() error {
		if s := fetch(w, &v2.ServiceGroup{ObjectMeta: group.ObjectMeta}).Status; s.AvailableIPv4 == nil || *s.AvailableIPv4 != 1 {
			return errNotYet
		}
		return nil
	})
	w.create(young, pinned, excluded)
	w.has(young, "192.0.2.101")
	w.says(pinned, "False", "RangeDraining", "192.0.2.2", "drain")
	w.says(excluded, "False", "AddressExcluded", "192.0.2.100", "exclude")
	w.has(old, "192.0.2.1")
	w.patch(old, `{"metadata":{"annotations":{"purelb.io/re-evaluate":"true"}}}`)
	w.hasEvent(old, "AllocationFailed", "exhausted")
	w.remove(young)
	w.patch(old, `{"metadata":{"annotations":{"purelb.io/re-evaluate":"true"}}}`)
	w.has(old, "192.0.2.101")
}

// fetchSpec returns the newest version of g, with the spec of g.
func fetchSpec(w *world, g *v2.ServiceGroup) *v2.ServiceGroup {
	w.Helper()
	newest := fetch(w, &v2.ServiceGroup{ObjectMeta: g.ObjectMeta})
	newest.Spec = g.Spec
	return newest
}

func TestMultiPoolServiceFillsUpLater(t *testing.T) {
	w := newWorld(t)
	group := w.local("default", "192.0.2.1-192.0.2.9", "192.0.2.0/24", "192.0.3.1-192.0.3.9", "192.0.3.0/24")
	group.Spec.Local.MultiPool = true
	w.create(group, w.lease("n1", "192.0.2.0/24"))
	r := w.allocator()
	svc := balancer("svc")
	w.create(svc)
	w.has(svc, "192.0.2.1")
	w.hasEvent(svc, "IPAllocated", "Multi-pool: assigned 1 IPs from pool default")
	r.counts(1, "purelb_address_pool_multipool_partial_total", "pool=default")
	w.create(w.lease("n2", "192.0.3.0/24"))
	w.has(svc, "192.0.2.1 192.0.3.1")
	w.hasEvent(svc, "IPAllocated", "Incremental multi-pool: added 1 IPs (total 2) from pool default")
	one := balancer("one", annotated(service.AnnotationMultiPool, "false"))
	w.create(one)
	w.has(one, "192.0.2.2")
	whole := balancer("whole")
	w.create(whole)
	w.has(whole, "192.0.2.3 192.0.3.2")
	r.counts(3, "purelb_address_pool_multipool_allocations_total", "pool=default") // svc twice, and whole
}

func TestBalancedPoolsAreFilledEvenly(t *testing.T) {
	w := newWorld(t)
	group := w.local("default", "192.0.2.1-192.0.2.9", "192.0.2.0/24", "192.0.3.1-192.0.3.9", "192.0.3.0/24")
	group.Spec.Local.BalancePools = true
	w.create(group)
	r := w.allocator()
	w.soon(func() error {
		if !r.shows("purelb_address_pool_balance_pools_allocations_total", "pool=default") {
			return errNotYet
		}
		return nil
	})
	for i, want := range []string{"192.0.2.1", "192.0.3.1", "192.0.2.2", "192.0.3.2"} {
		svc := balancer(fmt.Sprintf("svc-%d", i))
		w.create(svc)
		w.has(svc, want)
	}
	r.counts(4, "purelb_address_pool_balance_pools_allocations_total", "pool=default")
}
