package agent

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/kube"
	"purelb.io/purelb/internal/service"
	"purelb.io/purelb/internal/testing/expect"
)

func TestCachesShowTheObjectsOfThisNode(t *testing.T) {
	c := newCluster(t)
	elsewhere := newCluster(t)
	c.apply(ptr(localGroup("mine", "192.0.2.0/25", "2001:db8::/96")))
	c.apply(ptr(lbNodeAgent("mine", v2.InterfaceSpec{})))
	elsewhere.apply(ptr(localGroup("other", "192.0.2.0/25", "2001:db8::/96")))
	c.serve("web", nil, "192.0.2.9")
	c.serve("anothers", nil, "192.0.2.10")
	c.patch("anothers", fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, service.AnnotationAllocatedBy))
	c.serve("plain", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })

	caches, err := NewCaches(c.config, c.node, c.namespace)
	expect.NoError(t, err)
	if _, complete := caches.Read(); complete {
		t.Error("the caches are complete before they start")
	}
	run(t, caches.Run)

	// endpoints returns the nodes of web, by its IPv4 endpoints.
	endpoints := func(follow map[string]bool) (nodes []string, known bool) {
		ready, _ := caches.Endpoints(follow)
		nodes, known = ready[announce.ServiceFamily{Service: c.namespace + "/web", Family: addr.V4}]
		return nodes, known
	}
	show := func() string {
		s, complete := caches.Read()
		if !complete {
			return "incomplete"
		}
		words := []string{s.Node.Name, s.Node.Labels["zone"]}
		for _, g := range s.Groups {
			words = append(words, "group", g.Name)
		}
		for _, a := range s.Agents {
			words = append(words, "agent", a.Name)
		}
		for _, svc := range s.Services {
			if svc.name().Namespace != c.namespace {
				continue
			}
			words = append(words, "service", svc.name().Name, map[bool]string{true: "Local", false: "Cluster"}[svc.LocalPolicy])
			if nodes, known := endpoints(announce.Follows([]announce.Service{svc.Service}, nil)); known {
				words = append(words, fmt.Sprint(slices.Contains(nodes, c.node)))
			}
		}
		return strings.Join(words, " ")
	}
	base := c.node + " a group mine agent mine service web "
	eventuallyIs(t, "the first view", base+"Cluster", show)
	if _, synced := caches.slices.All(); synced || caches.followed.Load() != nil {
		t.Error("the caches watch endpoints although no Service needs them")
	}
	c.patch("web", `{"spec":{"externalTrafficPolicy":"Local"}}`)
	eventuallyIs(t, "the view without endpoints", base+"Local false", show)
	c.endpoint("web", c.node, true)
	eventuallyIs(t, "the view with an endpoint here", base+"Local true", show)
	c.endpoint("web", "another-node", true)
	eventuallyIs(t, "the view with an endpoint elsewhere", base+"Local false", show)
	c.patch("web", `{"metadata":{"annotations":{"purelb.io/node-affinity":"service-endpoints"}},"spec":{"externalTrafficPolicy":"Cluster"}}`)
	eventuallyIs(t, "the view with an affinity", base+"Cluster false", show)
	c.patch("web", `{"metadata":{"annotations":{"purelb.io/node-affinity":null}}}`)
	eventuallyIs(t, "the view when nothing asks for endpoints", base+"Cluster", show)
	if nodes, known := endpoints(map[string]bool{c.namespace + "/web": true}); !known || !slices.Equal(nodes, []string{"another-node"}) {
		t.Errorf("the endpoints of web are on %v, known %v; want another-node", nodes, known)
	}
	c.patch("web", `{"spec":{"type":"NodePort","externalTrafficPolicy":"Cluster"}}`)
	eventuallyIs(t, "the view when the type changed", strings.TrimSuffix(base, " service web "), show)
}

func TestServicesThatAreNotOursSignalNoChange(t *testing.T) {
	c := newCluster(t)
	caches, err := NewCaches(c.config, c.node, c.namespace)
	expect.NoError(t, err)
	var read sync.Map // by "namespace/name", whether a Service is ours
	balanced := func(o *metav1.ListOptions) { o.FieldSelector = "spec.type=LoadBalancer" }
	caches.services = watch(caches, kube.Selected(c.core.CoreV1().Services(""), balanced), func(svc *corev1.Service) (*Service, bool) {
		kept, ours := readService(svc)
		read.Store(svc.Namespace+"/"+svc.Name, ours)
		return kept, ours
	}, sameService)
	run(t, caches.Run)
	services := c.core.CoreV1().Services(c.namespace)
	create := func(name string) {
		svc := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
		}
		if _, err := services.Create(t.Context(), svc, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	// ours returns whether the Services of this name that came were ours. The watch reads an
	// object before it signals. When it reads the next one, it has given all signals of the
	// earlier ones.
	ours := func(name string) func() string {
		return func() string {
			came, there := read.Load(c.namespace + "/" + name)
			return fmt.Sprint(came, there)
		}
	}
	c.serve("web", nil, "192.0.2.9")
	eventuallyIs(t, "a Service with an address", "true true", ours("web"))
	create("first")
	eventuallyIs(t, "one without an address", "false true", ours("first"))
	eventually(t, "everything has been seen", func() bool {
		_, complete := caches.Read()
		return complete
	})
	drain(t, caches.Changed())
	create("pending")
	c.patch("pending", `{"metadata":{"labels":{"changed":"yes"}}}`)
	expect.NoError(t, services.Delete(t.Context(), "pending", metav1.DeleteOptions{}))
	create("last")
	eventuallyIs(t, "one without an address, after all changes of another Service", "false true", ours("last"))
	if len(caches.Changed()) > 0 {
		t.Error("Services that are not ours signal a change")
	}
	c.patch("web", `{"metadata":{"labels":{"changed":"yes"}}}`)
	<-caches.Changed()
	c.patch("web", fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, service.AnnotationAllocatedBy))
	<-caches.Changed()
}

// Most Services of a cluster have no address from a group that withdraws idle addresses.
func TestEndpointsThatAreNotFollowedSignalNoChange(t *testing.T) {
	c, err := NewCaches(&rest.Config{}, "node-a", "purelb")
	expect.NoError(t, err)
	c.followed.Store(&map[string]bool{"default/web": true})
	for service, signals := range map[string]int{"web": 1, "other": 0} {
		slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Labels: map[string]string{discoveryv1.LabelServiceName: service},
		}}
		for _, change := range [][2]*discoveryv1.EndpointSlice{{nil, slice}, {slice, slice.DeepCopy()}, {slice, nil}} {
			c.endpointsChanged(change[0], change[1])
			expect.Equal(t, "signals of the endpoints of "+service, len(c.Changed()), signals)
			for len(c.Changed()) > 0 {
				<-c.Changed()
			}
		}
	}
}

// A pass asks for the endpoints of a few Services. A cluster may have 20,000 EndpointSlices.
func TestEndpointsOfOtherServicesCostNothing(t *testing.T) {
	c, err := NewCaches(&rest.Config{}, "node-a", "purelb")
	expect.NoError(t, err)
	all := &discoveryv1.EndpointSliceList{}
	for i := range 1000 {
		service := fmt.Sprint("service-", i)
		all.Items = append(all.Items, discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: service + "-x", Labels: map[string]string{discoveryv1.LabelServiceName: service}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.1.1.1"}, NodeName: ptr("node-a")}},
		})
	}
	c.slices = c.endpointSlices(&toolscache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (apiruntime.Object, error) { return all, nil },
		WatchFuncWithContext: func(_ context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			if o.SendInitialEvents != nil {
				return nil, apierrors.NewBadRequest("no initial state")
			}
			return apiwatch.NewFake(), nil
		},
	})
	run(t, func(ctx context.Context) error {
		c.watchEndpoints(ctx)
		return nil
	})
	services := map[string]bool{"default/service-7": true}
	eventuallyIs(t, "the endpoints", "map[{default/service-7 IPv4}:[node-a] {default/service-7 IPv6}:[]]", func() string {
		ready, _ := c.Endpoints(services)
		return fmt.Sprint(ready)
	})
	if allocated := testing.AllocsPerRun(10, func() { c.Endpoints(services) }); allocated > 100 {
		t.Errorf("to read the endpoints of one of 1,000 Services allocates %v times", allocated)
	}
}

// drain discards the signals of the first complete view of the caches. A watch shows its first
// list before it signals.
func drain(t *testing.T, signals <-chan struct{}) {
	t.Helper()
	stacks := make([]byte, 1<<20)
	eventually(t, "the caches signal that they are complete", func() bool {
		return !bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte(".Replace("))
	})
	select {
	case <-signals:
	default:
	}
}

func TestCachesShowTheConfiguredNamespaces(t *testing.T) {
	c, team, elsewhere := newCluster(t), newCluster(t), newCluster(t)
	c.apply(ptr(localGroup("mine", "192.0.2.0/25", "2001:db8::/96")))
	team.apply(ptr(localGroup("theirs", "192.0.2.128/25", "2001:db8:1::/96")))
	team.apply(ptr(lbNodeAgent("theirs", v2.InterfaceSpec{})))
	elsewhere.apply(ptr(localGroup("other", "198.51.100.0/25", "2001:db8:2::/96")))
	for _, tt := range []struct {
		others []string
		want   string
	}{
		{nil, "mine"},
		{[]string{team.namespace}, "mine theirs agent theirs"},
		{[]string{config.Everywhere}, "mine other theirs agent theirs"},
	} {
		caches, err := NewCaches(c.config, c.node, c.namespace, tt.others...)
		expect.NoError(t, err)
		run(t, caches.Run)
		eventuallyIs(t, fmt.Sprintf("the view of %q", tt.others), tt.want, func() string {
			s, complete := caches.Read()
			if !complete {
				return "incomplete"
			}
			var words []string
			for _, g := range s.Groups {
				if slices.Contains([]string{c.namespace, team.namespace, elsewhere.namespace}, g.Namespace) {
					words = append(words, g.Name)
				}
			}
			slices.Sort(words)
			for _, a := range s.Agents {
				if a.Namespace == team.namespace {
					words = append(words, "agent", a.Name)
				}
			}
			return strings.Join(words, " ")
		})
	}
}
