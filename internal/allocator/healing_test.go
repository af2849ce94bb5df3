package allocator_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/service"
	"purelb.io/purelb/internal/testing/apitest"
)

// shows reports whether a metric with this name and these labels exists, even if it reads
// 0.
func (r *running) shows(name string, labels ...string) bool {
	r.world.Helper()
	families, err := r.metrics.Gather()
	must(r.world, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var values []string
			for _, l := range m.GetLabel() {
				values = append(values, l.GetName()+"="+l.GetValue())
			}
			if f.GetName() == name && !slices.ContainsFunc(labels, func(l string) bool { return !slices.Contains(values, l) }) {
				return true
			}
		}
	}
	return false
}

// No timer retries a refused Service (TestNoTimerRetriesARefusedService). So if the Service gets an
// address, the end of the cause has triggered that.
func TestRefusalHealsWithItsCause(t *testing.T) {
	pinned := func(addresses string) func(*corev1.Service) { return annotated(service.AnnotationAddresses, addresses) }
	tests := []struct {
		name string
		// spoil runs before the Service is created, and mend after that.
		spoil, mend func(w *world)
		svc         *corev1.Service
		reason      string
		want        string
	}{
		{
			name:   "a pool grows",
			spoil:  func(w *world) { w.offer(w.local("default", "2001:db8::1-2001:db8::2", "2001:db8::/64")) },
			svc:    balancer("svc"),
			reason: "NoUsablePool",
			mend: func(w *world) {
				w.patch(w.local("default"), `{"spec":{"local":{"v4pools":[{"pool":"192.0.2.5-192.0.2.9","subnet":"192.0.2.0/24"}]}}}`)
			},
			want: "192.0.2.5",
		},
		{
			name:   "the group is created",
			spoil:  func(*world) {},
			svc:    balancer("svc", inGroup("late")),
			reason: "UnknownPool",
			mend:   func(w *world) { w.create(w.small("late")) },
			want:   "192.0.2.1",
		},
		{
			name: "a pool no longer drains",
			spoil: func(w *world) {
				g := w.local("default", "192.0.2.1-192.0.2.1", "192.0.2.0/24")
				g.Spec.Local.V4Pools[0].Drain = true
				w.offer(g)
			},
			svc:    balancer("svc"),
			reason: "Exhausted",
			mend: func(w *world) {
				w.patch(w.local("default"), `{"spec":{"local":{"v4pools":[{"pool":"192.0.2.1-192.0.2.1","subnet":"192.0.2.0/24"}]}}}`)
			},
			want: "192.0.2.1",
		},
		{
			name: "a boundary is opened",
			spoil: func(w *world) {
				g := w.local("default", "192.0.2.1-192.0.2.1", "192.0.2.0/24")
				g.Spec.Namespaces, g.Spec.EnforceNamespaces = []v2.Namespace{"elsewhere"}, true
				w.offer(g)
			},
			svc:    balancer("svc", inGroup("default")),
			reason: "NamespaceDenied",
			mend:   func(w *world) { w.patch(w.local("default"), `{"spec":{"enforceNamespaces":false}}`) },
			want:   "192.0.2.1",
		},
		{
			name: "the holder of the address is deleted",
			spoil: func(w *world) {
				w.offer(mustGroup(w.small("default")))
				other := balancer("other")
				w.create(other)
				w.has(other, "192.0.2.1")
			},
			svc:    balancer("svc", pinned("192.0.2.1")),
			reason: "AddressInUse",
			mend:   func(w *world) { w.remove(named("default", "other")) },
			want:   "192.0.2.1",
		},
		{
			name: "the holder of the address changes its type",
			spoil: func(w *world) {
				w.offer(mustGroup(w.small("default")))
				other := balancer("other")
				w.create(other)
				w.has(other, "192.0.2.1")
			},
			svc:    balancer("svc", pinned("192.0.2.1")),
			reason: "AddressInUse",
			mend:   func(w *world) { w.patch(named("default", "other"), `{"spec":{"type":"NodePort"}}`) },
			want:   "192.0.2.1",
		},
		{
			name:   "the Service itself is corrected",
			spoil:  func(w *world) { w.offer(mustGroup(w.small("default"))) },
			svc:    balancer("svc", pinned("192.0.2.1,192.0.2.2")),
			reason: "InvalidRequest",
			mend:   func(w *world) { w.asks(named("default", "svc"), "192.0.2.2") },
			want:   "192.0.2.2",
		},
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

func TestEachChangeWritesEachServiceOnce(t *testing.T) {
	w := newWorld(t)
	w.create(w.local("default", "192.0.2.1-192.0.2.4", "192.0.2.0/24"))
	var mu sync.Mutex
	writes := map[string]int{}
	w.between(func(req *http.Request, send func(*http.Request) (*http.Response, error)) (*http.Response, error) {
		if req.Method != http.MethodGet && strings.Contains(req.URL.Path, "/services/") {
			mu.Lock()
			writes[req.Method+" "+strings.TrimPrefix(req.URL.Path, "/api/v1/namespaces/default/services/")]++
			mu.Unlock()
		}
		return send(req)
	})
	w.allocator()
	for i, svc := range []*corev1.Service{
		balancer("plain"), balancer("shared", keyed("key", "80/TCP")), balancer("sharing", keyed("key", "81/TCP")),
		balancer("pinned", annotated(service.AnnotationAddresses, "192.0.2.4")), balancer("last"),
	} {
		w.create(svc)
		w.has(svc, []string{"192.0.2.1", "192.0.2.2", "192.0.2.2", "192.0.2.4", "192.0.2.3"}[i])
	}
	refused := balancer("refused")
	w.create(refused)
	w.says(refused, "False", "Exhausted")
	// Every other change queues all Services, but writes none of them.
	other := w.remote("other", "198.51.100.0/24", "198.51.100.0/24")
	w.create(other, w.lease("n1", "10.0.0.0/24"))
	w.judged(other, "True", "Accepted")
	bystander := balancer("zz-bystander", inGroup("other"))
	w.create(bystander)
	w.has(bystander, "198.51.100.1")
	w.patch(named("default", "plain"), `{"metadata":{"labels":{"touched":"yes"}}}`)
	w.remove(bystander)
	mu.Lock()
	defer mu.Unlock()
	for name, n := range writes {
		if n != 1 {
			t.Errorf("%s: %d times", name, n)
		}
	}
	if len(writes) != 7 {
		t.Errorf("%d Services are written, want 7: %v", len(writes), writes)
	}
	for name, address := range map[string]string{
		"plain": "192.0.2.1", "shared": "192.0.2.2", "sharing": "192.0.2.2", "pinned": "192.0.2.4", "last": "192.0.2.3",
	} {
		want := "Assigned IP " + address + " from pool default"
		w.soon(func() error {
			if events := w.messages(fetch(w, named("default", name)), "IPAllocated"); len(events) != 1 || events[0] != want {
				return fmt.Errorf("the events of %s are %q, want %q once", name, events, want)
			}
			return nil
		})
	}
}

func TestServiceOfNewForeignClassIsReleased(t *testing.T) {
	w := newWorld(t)
	w.create(w.small("default"))
	w.allocator()
	svc := balancer("svc")
	w.create(svc)
	w.has(svc, "192.0.2.1")
	w.patch(svc, `{"spec":{"type":"ClusterIP"}}`)
	w.soon(func() error {
		if len(fetch(w, svc).Annotations) > 0 || len(svc.Status.Conditions) > 0 {
			return errNotYet
		}
		return nil
	})
	next := balancer("next")
	w.create(next)
	w.has(next, "192.0.2.1")
	w.patch(svc, `{"spec":{"type":"LoadBalancer","loadBalancerClass":"example.com/lb"}}`)
	version := fetch(w, svc).ResourceVersion
	w.patchStatus(svc, `{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.2"}]}}}`)
	if version == fetch(w, svc).ResourceVersion {
		t.Fatal("the allocator did not write the status")
	}
	version = svc.ResourceVersion
	last := balancer("last", dualStack("PreferDualStack"))
	w.create(last)
	w.has(last, "2001:db8::1") // 192.0.2.2 is in use, whichever controller gave it
	if fetch(w, svc).ResourceVersion != version || len(svc.Annotations) > 0 {
		t.Errorf("the allocator wrote the Service: %v %v", svc.Annotations, svc.Status)
	}
	w.remove(svc)
	w.has(last, "192.0.2.2 2001:db8::1")
}

func TestForeignServicesWithoutAnnotationsAreNeverWritten(t *testing.T) {
	w := newWorld(t)
	w.create(w.small("default"))
	apitest.EnsureNamespace(t, "other")
	class := "example.com/lb"
	var theirs []*corev1.Service
	for i := range 3 {
		svc := balancer(fmt.Sprintf("theirs-%d", i), inNamespace("other"))
		svc.Annotations = nil
		svc.Spec.LoadBalancerClass = &class
		w.create(svc)
		if i > 0 { // two of them share an address of the other controller
			w.patchStatus(svc, `{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}}`)
		}
		theirs = append(theirs, fetch(w, svc))
	}
	w.allocator()
	ours, keyless := balancer("ours", keyed("key", "80/TCP")), balancer("asking", keyed("key", "81/TCP"), annotated(service.AnnotationAddresses, "192.0.2.1"))
	w.create(ours)
	w.has(ours, "192.0.2.2")
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
}

func TestTypeMayChangeWithoutNodePorts(t *testing.T) {
	w := newWorld(t)
	w.create(w.small("default"))
	w.allocator()
	svc := balancer("svc", func(svc *corev1.Service) { svc.Spec.AllocateLoadBalancerNodePorts = new(bool) })
	w.create(svc)
	w.has(svc, "192.0.2.1")
	w.patch(svc, `{"spec":{"type":"ClusterIP","allocateLoadBalancerNodePorts":null}}`)
	w.patch(svc, `{"spec":{"type":"LoadBalancer","allocateLoadBalancerNodePorts":false}}`)
	w.soon(func() error {
		if len(fetch(w, svc).Status.LoadBalancer.Ingress) != 1 {
			return errNotYet
		}
		return nil
	})
	if p := svc.Spec.Ports[0].NodePort; p != 0 {
		t.Errorf("the node port is %d", p)
	}
}

func TestDoubtfulWriteFailsBeforeItsAddressIsFree(t *testing.T) {
	w := newWorld(t)
	far := func() *v2.ServiceGroup { return w.remote("far", "198.51.100.9-198.51.100.9", "198.51.100.0/24") }
	w.create(w.small("default"))
	// Writes of the new address are cut off. The first of them is performed later.
	held := make(chan func() (*http.Response, error), 1)
	w.between(func(req *http.Request, send func(*http.Request) (*http.Response, error)) (*http.Response, error) {
		if !allocates(req, "svc") {
			return send(req)
		}
		body := bodyOf(t, req)
		if !strings.Contains(body, `"ip":"198.51.100.9"`) {
			return send(withBody(req, body))
		}
		late := withBody(req.Clone(context.Background()), body)
		select {
		case held <- func() (*http.Response, error) { return send(late) }:
		default:
		}
		return nil, errCut
	})
	w.allocator()
	older, svc := balancer("a-older"), balancer("svc")
	w.create(older)
	w.has(older, "192.0.2.1")
	w.create(svc)
	w.has(svc, "192.0.2.2")
	w.asks(svc, "198.51.100.9")
	w.says(svc, "False", "AddressOutsidePools")
	w.create(far())
	w.soon(func() error {
		if len(held) == 0 {
			return errNotYet
		}
		return nil
	})
	// The group is deleted. The status of the Service is already right. The Service is nevertheless
	// written again before its old address becomes free.
	version := fetch(w, svc).ResourceVersion
	w.remove(far())
	w.soon(func() error {
		if fetch(w, svc).ResourceVersion == version {
			return errNotYet
		}
		return nil
	})
	// The group comes back, and the older Service is served first.
	w.asks(older, "198.51.100.9")
	w.says(older, "False", "AddressOutsidePools")
	w.says(svc, "False", "AddressOutsidePools")
	w.create(far())
	w.has(older, "198.51.100.9")
	resp, err := (<-held)()
	must(t, err)
	resp.Body.Close()
	if resp.StatusCode != http.StatusConflict {
		t.Errorf("the late write gets %s, want a conflict", resp.Status)
	}
	w.exclusive()
	w.has(svc, "192.0.2.2")
}
