package allocate_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/service"
	"purelb.io/purelb/internal/testing/apitest"
)

// No timer retries a refused Service (TestNoTimerRetriesARefusedService). So if the Service gets an
// address, the end of the cause has triggered that.
func TestRefusalHealsWithItsCause(t *testing.T) {
	pinned := annotated(service.AnnotationAddresses, "192.0.2.1")
	v4pools := func(pools string) func(*world) {
		return func(w *world) {
			w.patch(w.local("default"), `{"spec":{"local":{"v6pools":null,"v4pools":[%s]}}}`, pools)
		}
	}
	corrected, undrained := v4pools(`{"pool":"192.0.2.5-192.0.2.9","subnet":"192.0.2.0/24"}`), v4pools(`{"pool":"192.0.2.1-192.0.2.1","subnet":"192.0.2.0/24"}`)
	one := func(w *world, change func(*v2.ServiceGroup)) {
		g := w.local("default", "192.0.2.1-192.0.2.1", "192.0.2.0/24")
		change(g)
		w.offer(g)
	}
	taken := func(w *world) {
		w.offer(mustGroup(w.small("default")))
		w.allocate(balancer("other"), "192.0.2.1")
	}
	tests := []struct {
		name string
		// spoil runs before the Service is created, and mend after that.
		spoil  func(w *world)
		svc    *corev1.Service
		reason string
		mend   func(w *world)
		want   string
	}{
		{"a pool grows", func(w *world) { w.offer(w.local("default", "2001:db8::1-2001:db8::2", "2001:db8::/64")) },
			balancer("svc"), "NoUsablePool", corrected, "192.0.2.5"},
		{"the group is corrected", func(w *world) {
			g := w.local("default", "2001:db8:1::9-2001:db8:1::1", "2001:db8:1::/64")
			w.create(g)
			w.judged(g, "False", "ParseError")
		}, balancer("svc"), "NoUsablePool", corrected, "192.0.2.5"},
		{"the group is created", func(*world) {},
			balancer("svc", inGroup("late")), "UnknownPool", func(w *world) { w.create(w.small("late")) }, "192.0.2.1"},
		{"a pool no longer drains", func(w *world) { one(w, func(g *v2.ServiceGroup) { g.Spec.Local.V4Pools[0].Drain = true }) },
			balancer("svc"), "Exhausted", undrained, "192.0.2.1"},
		{"a boundary is opened", func(w *world) {
			one(w, func(g *v2.ServiceGroup) {
				g.Spec.Namespaces, g.Spec.EnforceNamespaces = []v2.Namespace{"elsewhere"}, true
			})
		}, balancer("svc", inGroup("default")), "NamespaceDenied", func(w *world) { w.patch(w.local("default"), `{"spec":{"enforceNamespaces":false}}`) }, "192.0.2.1"},
		{"the holder of the address is deleted", taken,
			balancer("svc", pinned), "AddressInUse", func(w *world) { w.remove(named("default", "other")) }, "192.0.2.1"},
		{"the holder of the address changes its type", taken,
			balancer("svc", pinned), "AddressInUse", func(w *world) { w.patch(named("default", "other"), `{"spec":{"type":"NodePort"}}`) }, "192.0.2.1"},
		{"the Service itself is corrected", func(w *world) { w.offer(mustGroup(w.small("default"))) },
			balancer("svc", annotated(service.AnnotationAddresses, "192.0.2.1,192.0.2.2")), "InvalidRequest",
			func(w *world) { w.asks(named("default", "svc"), "192.0.2.2") }, "192.0.2.2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.allocator()
			tt.spoil(w)
			svc := tt.svc.DeepCopy()
			w.create(svc)
			w.says(svc, "False", tt.reason)
			w.hasEvent(svc, "AllocationFailed", "default/svc")
			tt.mend(w)
			w.has(svc, tt.want)
			w.says(svc, "True", "Allocated")
			if n := len(w.messages(svc, "AllocationFailed")); n != 1 {
				t.Errorf("%d events report the refusal, want 1", n)
			}
		})
	}
}

func TestForeignServicesAreLeftAlone(t *testing.T) {
	w := idleWorld(t)
	apitest.EnsureNamespace(t, "other")
	var theirs []*corev1.Service
	for i := range 3 {
		svc := balancer(fmt.Sprintf("theirs-%d", i), inNamespace("other"), ofClass("example.com/lb"))
		svc.Annotations = nil
		w.create(svc)
		if i > 0 { // two of them share an address of the other controller
			w.patchStatus(svc, `{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}}`)
		}
		theirs = append(theirs, fetch(w, svc))
	}
	w.allocator()
	ours, keyless := balancer("ours", keyed("key", "80/TCP")), balancer("asking", keyed("key", "81/TCP"), annotated(service.AnnotationAddresses, "192.0.2.1"))
	w.allocate(ours, "192.0.2.2")
	w.create(keyless)
	w.says(keyless, "False", "AddressInUse", "192.0.2.1", "other/theirs-1")
	w.remove(theirs[1])
	w.create(balancer("another"))
	w.says(named("default", "another"), "False", "Exhausted")
	for _, svc := range []*corev1.Service{theirs[0], theirs[2]} {
		if version := svc.ResourceVersion; fetch(w, svc).ResourceVersion != version {
			t.Errorf("%s was written: %v %v", svc.Name, svc.Annotations, svc.Status)
		}
	}
	w.remove(keyless)
	w.remove(theirs[2])
	w.has(named("default", "another"), "192.0.2.1")
}
