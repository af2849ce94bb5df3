package allocate

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/kube/events"
	"purelb.io/purelb/internal/service"
)

// fakeWriter writes one Service, and records the writes.
type fakeWriter struct {
	client.Client
	svc  *corev1.Service
	done []string
	// err is the error of all writes.
	err error
}

// fakeStatusWriter is the part of a fakeWriter that writes the status.
type fakeStatusWriter struct {
	client.SubResourceWriter
	writer *fakeWriter
}

func (p *fakeWriter) Status() client.SubResourceWriter { return fakeStatusWriter{writer: p} }

func (n fakeStatusWriter) Patch(_ context.Context, o client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	return n.writer.write("status", o, patch)
}

func (p *fakeWriter) Patch(_ context.Context, o client.Object, patch client.Patch, _ ...client.PatchOption) error {
	return p.write("spec", o, patch)
}

func (p *fakeWriter) write(what string, o client.Object, patch client.Patch) error {
	data, err := patch.Data(o)
	if err != nil {
		return err
	}
	after := p.svc.DeepCopy()
	if err := json.Unmarshal(data, after); err != nil {
		return err
	}
	p.done = append(p.done, what+" of "+after.ResourceVersion)
	if p.err != nil {
		return p.err
	}
	if after.ResourceVersion != p.svc.ResourceVersion {
		return apierrors.NewConflict(schema.GroupResource{Resource: "services"}, o.GetName(), nil)
	}
	after.ResourceVersion += "+"
	p.svc = after
	after.DeepCopyInto(o.(*corev1.Service))
	return nil
}

// loop returns the loop of Services with p as its writer.
func (s *fixture) loop(cached, live client.Reader, p *fakeWriter) *services {
	writer := &writer{client: p, metrics: newMetrics(nil, nil)}
	return &services{
		cached: cached, live: live, write: writer, allocations: s.allocations, metrics: writer.metrics,
		events:  events.New(nil, corev1.EventSource{}, slog.New(slog.DiscardHandler)), /* not run: nothing is written */
		changed: make(chan struct{}, 1), rules: service.Rules{ByDefault: true}, log: slog.New(slog.DiscardHandler),
	}
}

// plain is the Service default/web in version 1.
func plain(change ...func(*corev1.Service)) *corev1.Service {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "1", ResourceVersion: "1", Annotations: map[string]string{}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, ClusterIP: "10.0.0.1", IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}},
	}
	for _, c := range change {
		c(svc)
	}
	return svc
}

func named(svc *corev1.Service) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKeyFromObject(svc)}
}

func TestOnlyTheCachedVersionIsWritten(t *testing.T) {
	tests := []struct {
		name string
		// meanwhile is the version that the API server has at the first read.
		meanwhile, want string
	}{
		{"once for each version", "1", "spec of 1, status of 1+"},
		{"again after a conflict", "7", "spec of 1, spec of 1, spec of 7, status of 7+"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newFixture(t, group(t, "default", "192.0.2.1-192.0.2.9"))
			svc := plain(func(svc *corev1.Service) {
				svc.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
				svc.Annotations[service.AnnotationSharing] = "key"
			})
			p := &fakeWriter{svc: svc.DeepCopy()}
			p.svc.ResourceVersion = tt.meanwhile
			cache := reader{svc: svc}
			loop := s.loop(&cache, &cache, p)
			for range 4 { // the cache gets each written version only after a second reconcile
				for range 2 {
					if _, err := loop.Reconcile(t.Context(), named(svc)); err != nil {
						t.Fatal(err)
					}
				}
				cache.svc = p.svc
			}
			if got := strings.Join(p.done, ", "); got != tt.want {
				t.Errorf("the writes are %s, want %s", got, tt.want)
			}
			if got := addr.Join(service.Ingress(p.svc), ", "); got != "192.0.2.1" {
				t.Errorf("the Service shows %q", got)
			}
			if n := testutil.ToFloat64(loop.metrics.updateErrors); n != 0 {
				t.Errorf("the metric counts %g errors, although a conflict is none", n)
			}
			if replaced := loop.memories.at(named(svc).NamespacedName).replaced; replaced != "" {
				t.Errorf("the loop remembers a write of an older version: %s", replaced)
			}
		})
	}
}

// A refused Service is queued again when the cause ends. A timer would hide a missed trigger.
func TestNoTimerRetriesARefusedService(t *testing.T) {
	s := newFixture(t, group(t, "default", "192.0.2.1-192.0.2.1"))
	s.gets(s.wants("holder"), "192.0.2.1")
	p := &fakeWriter{svc: plain()}
	cache := reader{svc: p.svc}
	loop := s.loop(&cache, &cache, p)
	for range 2 { // the first reconcile writes the refusal, the second finds it
		// Only the event is told again, before it ends.
		if result, err := loop.Reconcile(t.Context(), named(p.svc)); err != nil || result.RequeueAfter < remindAfter-time.Minute {
			t.Errorf("a timer is set: %+v, %v", result, err)
		}
		cache.svc = p.svc
	}
	if c := p.svc.Status.Conditions; len(c) != 1 || c[0].Reason != "Exhausted" {
		t.Errorf("conditions: %v", c)
	}
}

func showing(address string) func(*corev1.Service) {
	return func(svc *corev1.Service) {
		svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address}}
	}
}
