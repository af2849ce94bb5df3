package allocator_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"purelb.io/purelb/internal/service"
	"purelb.io/purelb/internal/testing/apitest"
)

// keyed gives a Service a sharing key and these ports, such as "80/TCP".
func keyed(key string, ports ...string) func(*corev1.Service) {
	return func(svc *corev1.Service) {
		svc.Annotations[service.AnnotationSharing] = key
		svc.Spec.Ports = nil
		for i, text := range ports {
			p := corev1.ServicePort{Name: fmt.Sprintf("p%d", i), TargetPort: intstr.FromInt32(8080)}
			if _, err := fmt.Sscanf(text, "%d/%s", &p.Port, &p.Protocol); err != nil {
				panic(err)
			}
			svc.Spec.Ports = append(svc.Spec.Ports, p)
		}
	}
}

func inNamespace(namespace string) func(*corev1.Service) {
	return func(svc *corev1.Service) { svc.Namespace = namespace }
}

// listens changes the only port of svc.
func (w *world) listens(svc *corev1.Service, port int) {
	w.Helper()
	w.patch(svc, `{"spec":{"ports":[{"name":"p0","port":%d,"protocol":"TCP"}]}}`, port)
}

func TestServicesWithTheSameKeyShareAnAddress(t *testing.T) {
	w := newWorld(t)
	w.create(w.small("default"))
	r := w.allocator()
	for _, svc := range []*corev1.Service{
		balancer("web", keyed("key", "80/TCP", "443/TCP")),
		balancer("dns-tcp", keyed("key", "53/TCP")), balancer("dns-udp", keyed("key", "53/UDP")),
	} {
		w.create(svc)
		w.has(svc, "192.0.2.1")
		w.says(svc, "True", "Allocated")
	}
	r.counts(1, "purelb_address_pool_addresses_in_use", "pool=default")
	alone := balancer("alone", func(svc *corev1.Service) { svc.Spec.Ports[0].Port = 8080 })
	w.create(alone)
	w.has(alone, "192.0.2.2")
}

func TestSharingKeyIsPerNamespaceByDefault(t *testing.T) {
	w := newWorld(t)
	wide := w.remote("wide", "198.51.100.1-198.51.100.9", "198.51.100.0/24")
	wide.Spec.ShareAcrossNamespaces = true
	w.create(w.small("default"), wide)
	w.allocator()
	apitest.EnsureNamespace(t, "other")
	here, there := balancer("here", keyed("key", "80/TCP")), balancer("there", keyed("key", "81/TCP"), inNamespace("other"))
	w.create(here)
	w.has(here, "192.0.2.1")
	w.create(there)
	w.has(there, "192.0.2.2")
	pinned := balancer("pinned", keyed("key", "82/TCP"), inNamespace("other"), annotated(service.AnnotationAddresses, "192.0.2.1"))
	w.create(pinned)
	w.says(pinned, "False", "SharedInAnotherNamespace", "192.0.2.1", "already in use by default/here")

	both := []*corev1.Service{balancer("here-too", keyed("key", "80/TCP"), inGroup("wide")),
		balancer("there-too", keyed("key", "81/TCP"), inGroup("wide"), inNamespace("other"))}
	for _, svc := range both {
		w.create(svc)
		w.has(svc, "198.51.100.1")
	}
}

func TestPortInUseIsRefusedUntilFree(t *testing.T) {
	w := newWorld(t)
	w.create(w.small("default"))
	r := w.allocator()
	first, second := balancer("first", keyed("key", "80/TCP")), balancer("second", keyed("key", "80/TCP"))
	w.create(first)
	w.has(first, "192.0.2.1")
	w.create(second)
	w.says(second, "False", "PortConflict", "192.0.2.1", "80", "TCP", "already in use", "default/first")
	w.hasEvent(second, "AllocationFailed", `Failed to allocate IP for "default/second": `, "already in use")
	r.counts(1, "purelb_address_pool_allocation_rejected_total", "pool=default", "reason=port_conflict")
	w.listens(first, 8080)
	w.has(second, "192.0.2.1")
	w.says(second, "True", "Allocated")
	third := balancer("third", keyed("key", "8080/TCP"))
	w.create(third)
	w.says(third, "False", "PortConflict", "default/first")
	w.remove(first)
	w.has(third, "192.0.2.1")
	w.has(second, "192.0.2.1")
}

func TestCollidingEditKeepsTheAddress(t *testing.T) {
	w := newWorld(t)
	w.create(w.small("default"))
	w.allocator()
	a, b := balancer("a", keyed("key", "80/TCP")), balancer("b", keyed("key", "443/TCP"))
	w.create(a)
	w.has(a, "192.0.2.1")
	w.create(b)
	w.has(b, "192.0.2.1")

	w.listens(b, 80)
	w.says(b, "False", "PortConflict", "192.0.2.1", "80", "TCP", "default/a")
	w.has(b, "192.0.2.1")
	w.says(a, "True", "Allocated")
	w.listens(a, 81)
	w.says(b, "True", "Allocated")

	w.patch(b, `{"metadata":{"annotations":{"purelb.io/allow-shared-ip":"another"}}}`)
	w.says(b, "False", "SharingConflict", "192.0.2.1", "default/a")
	w.has(b, "192.0.2.1")
	w.patch(a, `{"metadata":{"annotations":{"purelb.io/allow-shared-ip":"another"}}}`)
	w.says(a, "True", "Allocated")
	w.says(b, "True", "Allocated")

	w.patch(b, `{"metadata":{"annotations":{"purelb.io/allow-shared-ip":null}}}`)
	w.says(b, "False", "SharingConflict", "192.0.2.1", "default/a")
	w.remove(a)
	w.says(b, "True", "Allocated")
	w.has(b, "192.0.2.1")
	next := balancer("next", keyed("another", "8080/TCP"))
	w.create(next)
	w.has(next, "192.0.2.2")
}

func TestLaterSharingKeyLetsOthersJoin(t *testing.T) {
	w := newWorld(t)
	w.create(w.local("default", "192.0.2.1-192.0.2.1", "192.0.2.0/24"))
	w.allocator()
	first, second := balancer("first"), balancer("second", keyed("key", "443/TCP"))
	w.create(first)
	w.has(first, "192.0.2.1")
	w.create(second)
	w.says(second, "False", "Exhausted")
	w.patch(first, `{"metadata":{"annotations":{"purelb.io/allow-shared-ip":"key"}}}`)
	w.has(second, "192.0.2.1")
	w.says(second, "True", "Allocated")
}

func TestPolicyOfSharedAddressesIsReset(t *testing.T) {
	w := newWorld(t)
	w.create(w.remote("default", "198.51.100.0/24", "198.51.100.0/24"))
	w.allocator()
	svc := balancer("svc", keyed("key", "80/TCP"), localPolicy)
	w.create(svc)
	w.has(svc, "198.51.100.1")
	if p := svc.Spec.ExternalTrafficPolicy; p != "Cluster" {
		t.Errorf("the policy is %s", p)
	}
	w.hasEvent(svc, "LocalOverride", "may be shared", "198.51.100.1")
}
