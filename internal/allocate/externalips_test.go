package allocate_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/internal/service"
)

// The conditions of Services beside a Service with addresses in spec.externalIPs, as docs/refusals.md
// quotes them.
const (
	saidListed    = `192.0.2.1 was asked for, but it is in spec.externalIPs of default/old; remove it there, or ask for another address`
	saidListedToo = `Assigned 192.0.2.2 from pool default; 192.0.2.2 is also in spec.externalIPs of default/old, so clients may not reach this Service; ` +
		`set the annotation purelb.io/re-evaluate: "true" to get another address, or remove it there`
)

// clusterIP makes a Service of type ClusterIP with addresses in spec.externalIPs.
func clusterIP(name string, external ...string) *corev1.Service {
	return balancer(name, func(svc *corev1.Service) { svc.Spec.Type, svc.Spec.ExternalIPs = corev1.ServiceTypeClusterIP, external })
}

func TestExternalIPsOfOtherServicesAreNotGiven(t *testing.T) {
	w := newWorld(t)
	old := clusterIP("old", "192.0.2.1")
	w.create(w.small("default"), old)
	w.allocator()
	given, asks := balancer("given"), balancer("asks", annotated(service.AnnotationAddresses, "192.0.2.1"))
	w.allocate(given, "192.0.2.2")
	w.create(asks)
	w.says(asks, "False", "AddressInUse", saidListed)
	w.patch(old, `{"spec":{"externalIPs":["203.0.113.9"]}}`)
	w.has(asks, "192.0.2.1")
	w.says(asks, "True", "Allocated")

	w.patch(old, `{"spec":{"externalIPs":["192.0.2.2"]}}`)
	w.says(given, "False", "AddressConflict", saidListedToo)
	w.has(given, "192.0.2.2")
	w.hasEvent(given, "AddressConflict", saidListedToo)
	w.remove(old)
	w.says(given, "True", "Allocated")
}

func TestExternalIPsOfALoadBalancerAreNotGiven(t *testing.T) {
	w, _ := smallWorld(t)
	lists := balancer("lists", func(svc *corev1.Service) { svc.Spec.ExternalIPs = []string{"192.0.2.1"} })
	w.allocate(lists, "192.0.2.2")
	waits := balancer("waits")
	w.create(waits)
	w.says(waits, "False", "Exhausted")
	w.remove(lists)
	w.has(waits, "192.0.2.1")
}

// A Service moves from spec.externalIPs to PureLB with its address, and back.
func TestServiceMovesFromExternalIPs(t *testing.T) {
	w := newWorld(t)
	old := clusterIP("old", "192.0.2.1", "192.0.2.2")
	w.create(w.small("default"), old)
	w.allocator()
	waits := balancer("waits")
	w.create(waits)
	w.says(waits, "False", "Exhausted")
	w.patch(old, `{"metadata":{"annotations":{"purelb.io/addresses":"192.0.2.1"}},"spec":{"type":"LoadBalancer"}}`)
	w.has(old, "192.0.2.1")
	w.says(old, "True", "Allocated")
	w.patch(old, `{"spec":{"type":"ClusterIP"}}`)
	w.bare(old)
	w.patch(old, `{"spec":{"externalIPs":["192.0.2.1","203.0.113.9"]}}`) // in no round is 192.0.2.1 free
	w.has(waits, "192.0.2.2")
	next := balancer("next")
	w.create(next)
	w.says(next, "False", "Exhausted")
	w.patch(old, `{"spec":{"externalIPs":["203.0.113.9","192.0.2.1","198.51.100.9"]}}`)
	w.patch(old, `{"spec":{"externalIPs":["198.51.100.9"]}}`)
	w.has(next, "192.0.2.1")
	if n := len(w.messages(waits, "AddressConflict")) + len(w.messages(next, "AddressConflict")); n > 0 {
		t.Errorf("%d events AddressConflict", n)
	}
	if a := addressesOf(fetch(w, old)); a != "" {
		t.Errorf("old still shows %s", a)
	}
}
