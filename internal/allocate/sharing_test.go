package allocate_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"purelb.io/purelb/internal/service"
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

// Package ipam tests the rules. This test shows that the allocator follows the edits of sharers.
func TestServicesWithTheSameKeyShareAnAddress(t *testing.T) {
	w, r := smallWorld(t)
	web := balancer("web", keyed("key", "80/TCP"))
	for _, svc := range []*corev1.Service{
		web, balancer("dns-tcp", keyed("key", "53/TCP")), balancer("dns-udp", keyed("key", "53/UDP")),
	} {
		w.allocate(svc, "192.0.2.1")
		w.says(svc, "True", "Allocated")
	}
	r.counts(1, "purelb_address_pool_addresses_in_use", "pool=default")
	w.allocate(balancer("alone", func(svc *corev1.Service) { svc.Spec.Ports[0].Port = 8080 }), "192.0.2.2")

	second := balancer("second", keyed("key", "80/TCP"))
	w.create(second)
	w.says(second, "False", "PortConflict", "192.0.2.1", "80/TCP", "default/web")
	w.listens(web, 8080)
	w.has(second, "192.0.2.1")
	w.listens(web, 80)
	w.says(web, "False", "PortConflict", "192.0.2.1", "80/TCP", "default/second")
	w.has(web, "192.0.2.1")
	w.remove(second)
	w.says(web, "True", "Allocated")
}
