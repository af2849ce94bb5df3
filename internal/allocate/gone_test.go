package allocate

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/service"
)

func TestRecreatedServiceInheritsNothing(t *testing.T) {
	incarnation := func(uid types.UID, group string) *corev1.Service {
		return plain(func(svc *corev1.Service) { svc.UID, svc.Annotations[service.AnnotationGroup] = uid, group })
	}
	first, second := incarnation("1", "default"), incarnation("2", "second")
	tests := []struct {
		name         string
		cached, live client.Reader
		waits        bool
		want         string
	}{
		{"the cache has both events", reader{svc: second}, reader{svc: second}, false, "198.51.100.1"},
		{"the cache has only the deletion of the first", reader{}, reader{svc: second}, true, ""},
		{"the first is gone", reader{}, reader{}, false, ""},
		{"the second is gone, too", reader{svc: second}, reader{}, true, "192.0.2.1"},
		{"the cache has an older Service", reader{svc: second}, reader{svc: first}, true, "192.0.2.1"},
		{"the cache does not have the Service yet", reader{}, reader{svc: first}, true, "192.0.2.1"},
		{"it is the same Service", reader{svc: first}, reader{svc: first}, false, "192.0.2.1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newFixture(t, group(t, "default", "192.0.2.1-192.0.2.9"), group(t, "second", "198.51.100.1-198.51.100.9"))
			s.gets(service.Rules{ByDefault: true}.Read(first), "192.0.2.1")
			result, err := s.loop(tt.cached, tt.live, &fakeWriter{svc: second}).Reconcile(t.Context(), named(first))
			must(t, err)
			if got := addr.Join(s.cluster.Store.Held("default/web"), ", "); got != tt.want || result.RequeueAfter > 0 != tt.waits {
				t.Errorf("the Service holds %q, want %q; the next reconcile is in %s", got, tt.want, result.RequeueAfter)
			}
		})
	}
}

func TestReleaseIsRepeatedAfterConflict(t *testing.T) {
	cluster := plain(func(svc *corev1.Service) {
		svc.Spec.Type, svc.Annotations[service.AnnotationAllocatedBy] = corev1.ServiceTypeClusterIP, "PureLB"
	})
	p := &fakeWriter{svc: cluster.DeepCopy()}
	p.svc.ResourceVersion = "2" // another program wrote it after the read
	loop := newFixture(t, group(t, "default", "192.0.2.1-192.0.2.9")).loop(reader{}, reader{svc: cluster}, p)
	if result, err := loop.Reconcile(t.Context(), named(cluster)); err != nil || result != later {
		t.Errorf("after the conflict: %+v, %v; want another try", result, err)
	}
	loop.live = reader{svc: p.svc}
	result, err := loop.Reconcile(t.Context(), named(cluster))
	if err != nil || result.RequeueAfter > 0 || p.svc.Annotations[service.AnnotationAllocatedBy] != "" {
		t.Errorf("after the second try: %+v, %v, annotations %v", result, err, p.svc.Annotations)
	}
}
