package allocate

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/groups"
	"purelb.io/purelb/internal/service"
)

// reader reads the same Service for every name.
type reader struct {
	client.Reader
	svc *corev1.Service
}

func (r reader) Get(_ context.Context, key client.ObjectKey, to client.Object, _ ...client.GetOption) error {
	if r.svc == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "services"}, key.Name)
	}
	r.svc.DeepCopyInto(to.(*corev1.Service))
	return nil
}

func TestLaggingCacheFreesNothing(t *testing.T) {
	tests := []struct {
		name string
		// older makes the older of the two versions.
		older func(*corev1.Service)
	}{
		{"without one of two addresses", func(*corev1.Service) {}},
		{"of another class", func(svc *corev1.Service) {
			class := "example.com/other"
			svc.Spec.LoadBalancerClass = &class
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newFixture(t)
			none := &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "svc"},
				Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, ClusterIP: "10.96.0.1", IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}},
			}
			s.offer(twoPools(t, true))
			one := s.written(none, "1")
			s.offer(twoPools(t, false))
			two := s.written(one, "2")
			s.offer(twoPools(t, true))
			tt.older(one)
			s.sees(one, two, "198.51.100.1, 203.0.113.1")
			s.sees(one, one, "198.51.100.1")
		})
	}
}

// reads is a reader that reads these versions of a Service, one after the other.
type reads struct {
	client.Reader
	versions []*corev1.Service
}

func (r *reads) Get(_ context.Context, _ client.ObjectKey, to client.Object, _ ...client.GetOption) error {
	r.versions[0].DeepCopyInto(to.(*corev1.Service))
	if len(r.versions) > 1 {
		r.versions = r.versions[1:]
	}
	return nil
}

// A write got no answer. Then the group of its address goes, so that the status of the Service is
// right without a write.
func TestAddressOfAFailedWriteIsHeldUntilTheWriteEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		before := s.written(plain(), "1")
		s.offer(group(t, "default", "192.0.2.1-192.0.2.1"))
		after := s.written(before, "2")
		for _, tt := range []struct {
			name string
			live []*corev1.Service
			want string
		}{
			{"it has taken effect", []*corev1.Service{after}, "192.0.2.1"},
			{"it takes effect when etcd answers again", []*corev1.Service{before, after}, "192.0.2.1"},
			{"it has taken no effect", []*corev1.Service{before}, ""},
		} {
			s := newFixture(t, group(t, "default", "192.0.2.1-192.0.2.1"))
			loop := s.loop(reader{svc: before}, &reads{versions: tt.live}, &fakeWriter{svc: before, err: context.DeadlineExceeded})
			if _, err := loop.Reconcile(t.Context(), named(before)); err == nil {
				t.Fatalf("%s: the write succeeds", tt.name)
			}
			s.offer()
			result, err := loop.Reconcile(t.Context(), named(before))
			if held := addr.Join(s.cluster.Store.Held("default/web"), ", "); err != nil || held != "192.0.2.1" || result.RequeueAfter != writeEnds {
				t.Errorf("%s: after the change, held is %q, and the next reconcile is in %s; %v", tt.name, held, result.RequeueAfter, err)
			}
			time.Sleep(result.RequeueAfter)
			if _, err = loop.Reconcile(t.Context(), named(before)); err != nil {
				t.Error(err)
			}
			if held := addr.Join(s.cluster.Store.Held("default/web"), ", "); held != tt.want {
				t.Errorf("%s: at the end, held is %q, want %q", tt.name, held, tt.want)
			}
		}
	})
}

// twoPools returns a group that gives one address of each of two pools. The second pool may
// be draining.
func twoPools(t *testing.T, draining bool) groups.Group {
	g := group(t, "default", "198.51.100.1-198.51.100.1", "203.0.113.1-203.0.113.1")
	g.MultiPool, g.Pools[1].Draining = true, draining
	return g
}

// written returns svc with its decision, as this version.
func (s *fixture) written(svc *corev1.Service, version string) *corev1.Service {
	s.Helper()
	d, err := s.decide(service.Rules{ByDefault: true}.Read(svc))
	must(s, err)
	after := svc.DeepCopy()
	patch, err := d.Result.Patch(svc, time.Unix(1, 0))
	if err == nil {
		err = json.Unmarshal(patch, after)
	}
	must(s, err)
	after.ResourceVersion = version
	s.settle(owner(service.Rules{ByDefault: true}.Read(svc)), d.Result.Addresses)
	return after
}

// sees reconciles a Service while the cache has one version and the API server another. It
// fails unless these addresses are held for the Service after that.
func (s *fixture) sees(cached, live *corev1.Service, want string) {
	s.Helper()
	services := s.loop(reader{svc: cached}, reader{svc: live}, &fakeWriter{svc: live})
	if _, err := services.Reconcile(s.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(cached)}); err != nil {
		s.Fatal(err)
	}
	if got := addr.Join(s.cluster.Store.Held(owner(service.Rules{ByDefault: true}.Read(live))), ", "); got != want {
		s.Errorf("held are %q, want %q", got, want)
	}
}
