package allocate

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/service"
)

// externally makes a Service one of type ClusterIP with addresses in spec.externalIPs.
func externally(addresses ...string) func(*corev1.Service) {
	return func(svc *corev1.Service) {
		svc.Spec.Type, svc.Spec.ExternalIPs = corev1.ServiceTypeClusterIP, addresses
	}
}

// While the spec of a Service changes, there is no moment at which an address that it still lists is
// free.
func TestListedAddressIsNeverFree(t *testing.T) {
	name := types.NamespacedName{Namespace: "default", Name: "web"}
	for _, tt := range []struct {
		what     string
		before   func(*corev1.Service)
		after    *corev1.Service
		waitsFor string
	}{
		{"it lists one more", externally("192.0.2.1"), plain(externally("203.0.113.9", "192.0.2.1")), ""},
		{"it lists another", externally("192.0.2.1"), plain(externally("203.0.113.9")), "192.0.2.1"},
		{"it is gone", externally("192.0.2.1"), nil, "192.0.2.1"},
		{"it was of type LoadBalancer", showing("192.0.2.1"), plain(externally("192.0.2.1")), ""},
	} {
		s := newFixture(t, group(t, "default", "192.0.2.1-192.0.2.1"))
		if svc := plain(tt.before); svc.Spec.Type == corev1.ServiceTypeLoadBalancer {
			s.gets(service.Rules{ByDefault: true}.Read(plain()), "192.0.2.1")
		} else {
			s.withhold("default/web", service.External(svc))
		}
		waits := s.gets(s.wants("waits"), "")
		loop := s.loop(reader{}, reader{svc: tt.after}, &fakeWriter{svc: tt.after})
		if _, err := loop.Reconcile(t.Context(), reconcile.Request{NamespacedName: name}); err != nil {
			t.Fatal(err)
		}
		if got := addr.Join(s.cluster.Store.Held(owner(waits)), ", "); got != tt.waitsFor {
			t.Errorf("%s: the Service that waits gets %q, want %q", tt.what, got, tt.waitsFor)
		}
	}
}
