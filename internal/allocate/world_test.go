package allocate_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/allocate"
	"purelb.io/purelb/internal/service"
	"purelb.io/purelb/internal/testing/apitest"
	"purelb.io/purelb/internal/testing/expect"
	"purelb.io/purelb/internal/testing/processes"
)

func TestMain(m *testing.M) {
	// Half of the tests need an API server, which takes some seconds of CPU time in each process. They
	// share it one after the other, because an allocator serves the whole cluster. So two processes have
	// a server, and two have the other tests.
	os.Exit(processes.Run(m, processes.Options{Run: apitest.Run, Batch: 35, AtOnce: 3}))
}

// world is an API server without objects of ours, and the namespace in which PureLB is installed.
type world struct {
	testing.TB
	cfg       *rest.Config
	client    client.Client
	namespace string
}

func newWorld(t testing.TB) *world {
	t.Helper()
	c := apitest.Client(t, clientgoscheme.AddToScheme, v2.AddToScheme, bgpv1.AddToScheme)
	w := &world{TB: t, cfg: apitest.Config(t), client: c, namespace: apitest.Namespace(t)}
	w.clean()
	t.Cleanup(w.clean)
	return w
}

// idleWorld is a world with a group default of two addresses of each family, and without an allocator.
func idleWorld(t testing.TB) *world {
	t.Helper()
	w := newWorld(t)
	w.create(w.small("default"))
	return w
}

// smallWorld is an idleWorld with a running allocator.
func smallWorld(t testing.TB) (*world, *running) {
	t.Helper()
	w := idleWorld(t)
	return w, w.allocator()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// since skips a test on the API server of a Kubernetes before 1.minor, where the reason is true.
func (w *world) since(minor int, reason string) {
	w.Helper()
	api, err := discovery.NewDiscoveryClientForConfig(w.cfg)
	must(w, err)
	version, err := api.ServerVersion()
	must(w, err)
	if is, err := strconv.Atoi(version.Minor); err != nil || is < minor {
		w.Skipf("Kubernetes %s: %s", version, reason)
	}
}

// clean removes what earlier tests left on the shared server.
func (w *world) clean() {
	w.Helper()
	must(w, allocate.RemoveFinalizers(context.Background(), w.client))
	for _, list := range []client.ObjectList{
		&corev1.ServiceList{}, &corev1.NodeList{}, &v2.ServiceGroupList{}, &v2.LBNodeAgentList{}, &coordinationv1.LeaseList{},
	} {
		must(w, w.client.List(context.Background(), list))
		must(w, meta.EachListItem(list, func(o runtime.Object) error {
			object := o.(client.Object)
			if object.GetName() == "kubernetes" || strings.HasPrefix(object.GetName(), "apiserver-") {
				return nil
			}
			return client.IgnoreNotFound(w.client.Delete(context.Background(), object))
		}))
	}
}

// running is a running allocator.
type running struct {
	world   *world
	metrics *prometheus.Registry
	log     *expect.Log
	cancel  context.CancelFunc
	done    chan error
}

// allocator starts an allocator. It ends with the test.
func (w *world) allocator(change ...func(*allocate.Options)) *running {
	w.Helper()
	r := &running{world: w, metrics: prometheus.NewRegistry(), log: &expect.Log{}, done: make(chan error, 1)}
	opt := allocate.Options{
		Namespace: w.namespace, Rules: service.Rules{ByDefault: true}, LeaderElect: true, Metrics: r.metrics,
		// The times are long: a busy machine that stops this process or the API server for
		// some seconds must neither end the allocator nor make it repeat a write.
		LeaseDuration: time.Minute, RenewDeadline: 50 * time.Second,
		Log: slog.New(slog.NewJSONHandler(r.log, &slog.HandlerOptions{Level: slog.LevelInfo})),
	}
	for _, c := range change {
		c(&opt)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go func() { r.done <- allocate.Run(ctx, w.cfg, opt) }()
	w.Cleanup(r.stop)
	return r
}

// stop ends the allocator and waits for its end.
func (r *running) stop() {
	if r.done == nil {
		return
	}
	r.cancel()
	select {
	case err := <-r.done:
		if err != nil {
			r.world.Errorf("the allocator ended: %v", err)
		}
	case <-time.After(patience):
		r.world.Errorf("the allocator does not end")
	}
	r.done = nil
	if r.world.Failed() {
		r.world.Logf("log of the allocator:\n%s", r.log)
	}
}

// patience limits how long a test waits for something that must happen. A busy machine may stop a
// process for seconds, and an unreleased Lease takes 20 s to expire. The limit proves no order: a
// test about an order must hold one of the two actions back.
const patience = 30 * time.Second

// soon waits until what returns no error.
func (w *world) soon(what func() error) {
	w.Helper()
	w.within(patience, what)
}

// until waits until what returns true.
func (w *world) until(what func() bool) {
	w.Helper()
	w.soon(func() error {
		if !what() {
			return errNotYet
		}
		return nil
	})
}

func (w *world) within(limit time.Duration, what func() error) {
	w.Helper()
	deadline := time.Now().Add(limit)
	for {
		late := time.Now().After(deadline) // read before the last check, because the test itself may be delayed
		err := what()
		if err == nil {
			return
		}
		if late {
			w.Fatalf("after %s: %v", limit, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// create makes objects on the server.
func (w *world) create(objects ...client.Object) {
	w.Helper()
	for _, o := range objects {
		must(w, w.client.Create(context.Background(), o))
	}
}

// offer creates groups and waits until the running allocator uses them. Groups and Services arrive
// by separate watches. So the allocator may see a Service before a group that was created just
// before it.
func (w *world) offer(groups ...*v2.ServiceGroup) {
	w.Helper()
	for _, g := range groups {
		w.create(g)
	}
	for _, g := range groups {
		w.judged(g, "True", "Accepted")
	}
}

// outdate waits until a new object counts as younger than o. Creation times have a resolution of
// one second. Within a second, the names decide.
func (w *world) outdate(o client.Object) {
	w.Helper()
	time.Sleep(time.Until(fetch(w, o).GetCreationTimestamp().Add(1100 * time.Millisecond)))
}

// remove deletes o.
func (w *world) remove(o client.Object) {
	w.Helper()
	must(w, w.client.Delete(context.Background(), o))
}

// patch applies a merge patch to o.
func (w *world) patch(o client.Object, patch string, args ...any) {
	w.Helper()
	must(w, w.client.Patch(context.Background(), o, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, patch, args...))))
}

func (w *world) patchStatus(o client.Object, patch string, args ...any) {
	w.Helper()
	must(w, w.client.Status().Patch(context.Background(), o, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, patch, args...))))
}

// local makes a group of local addresses out of pairs of pool and subnet.
func (w *world) local(name string, pools ...string) *v2.ServiceGroup {
	return w.groupOf(name, v2.ServiceGroupSpec{Local: &v2.LocalSpec{Pools: poolsOf(pools)}})
}

// remote makes a group of remote addresses.
func (w *world) remote(name string, pools ...string) *v2.ServiceGroup {
	return w.groupOf(name, v2.ServiceGroupSpec{Remote: &v2.RemoteSpec{Pools: poolsOf(pools)}})
}

func (w *world) groupOf(name string, spec v2.ServiceGroupSpec) *v2.ServiceGroup {
	return &v2.ServiceGroup{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}, Spec: spec}
}

func poolsOf(texts []string) v2.Pools {
	var p v2.Pools
	for pair := range slices.Chunk(texts, 2) {
		one := v2.AddressPool{Pool: v2.Range(pair[0]), Subnet: v2.Subnet(pair[1])}
		if strings.Contains(pair[1], ":") {
			p.V6Pools = append(p.V6Pools, one)
		} else {
			p.V4Pools = append(p.V4Pools, one)
		}
	}
	return p
}

// balancer makes a Service of type LoadBalancer.
func balancer(name string, change ...func(*corev1.Service)) *corev1.Service {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: map[string]string{}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	for _, c := range change {
		c(svc)
	}
	return svc
}

func dualStack(policy corev1.IPFamilyPolicy) func(*corev1.Service) {
	return func(svc *corev1.Service) {
		svc.Spec.IPFamilyPolicy = &policy
		svc.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	}
}

func ipv6(svc *corev1.Service) { svc.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol} }

func annotated(name, value string) func(*corev1.Service) {
	return func(svc *corev1.Service) { svc.Annotations[name] = value }
}

func inGroup(name string) func(*corev1.Service) { return annotated(service.AnnotationGroup, name) }

func ofClass(name string) func(*corev1.Service) {
	return func(svc *corev1.Service) { svc.Spec.LoadBalancerClass = &name }
}

func localPolicy(svc *corev1.Service) {
	svc.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
}

// fetch reads o again.
func fetch[O client.Object](w *world, o O) O {
	w.Helper()
	must(w, w.client.Get(context.Background(), client.ObjectKeyFromObject(o), o))
	return o
}

// has waits until svc has these addresses, separated by spaces.
func (w *world) has(svc *corev1.Service, addresses string) {
	w.Helper()
	w.soon(func() error {
		if got := addressesOf(fetch(w, svc)); got != addresses {
			return fmt.Errorf("%s has %q, want %q; conditions: %v", svc.Name, got, addresses, svc.Status.Conditions)
		}
		return nil
	})
}

// allocate creates svc, waits until it has these addresses, and returns it.
func (w *world) allocate(svc *corev1.Service, addresses string) *corev1.Service {
	w.Helper()
	w.create(svc)
	w.has(svc, addresses)
	return svc
}

func addressesOf(svc *corev1.Service) string {
	var all []string
	for _, in := range svc.Status.LoadBalancer.Ingress {
		all = append(all, in.IP)
	}
	return strings.Join(all, " ")
}

// hasPolicy waits until svc has this externalTrafficPolicy.
func (w *world) hasPolicy(svc *corev1.Service, policy corev1.ServiceExternalTrafficPolicy) {
	w.Helper()
	w.soon(func() error {
		if p := fetch(w, svc).Spec.ExternalTrafficPolicy; p != policy {
			return fmt.Errorf("the policy of %s is %s, want %s", svc.Name, p, policy)
		}
		return nil
	})
}

func (w *world) hasNoNodePort(svc *corev1.Service) {
	w.Helper()
	if p := fetch(w, svc).Spec.Ports[0].NodePort; p != 0 {
		w.Errorf("the node port of %s is %d", svc.Name, p)
	}
}

// says waits until the condition of svc has this status and reason, and a
// message with all these texts.
func (w *world) says(svc *corev1.Service, status metav1.ConditionStatus, reason string, texts ...string) {
	w.Helper()
	w.soon(func() error {
		return condition(fetch(w, svc).Status.Conditions, service.ConditionAllocated, status, reason, texts)
	})
}

// condition returns an error that shows how the condition differs from the wanted one.
func condition(conditions []metav1.Condition, kind string, status metav1.ConditionStatus, reason string, texts []string) error {
	c := meta.FindStatusCondition(conditions, kind)
	if c == nil {
		return fmt.Errorf("the object has no condition %s", kind)
	}
	if c.Status != status || c.Reason != reason {
		return fmt.Errorf("condition is %s %s (%s), want %s %s", c.Status, c.Reason, c.Message, status, reason)
	}
	for _, text := range texts {
		if !strings.Contains(c.Message, text) {
			return fmt.Errorf("the message of the condition is %q, without %q", c.Message, text)
		}
	}
	return nil
}

// hasEvent waits for an event about o with this reason and these texts.
func (w *world) hasEvent(o client.Object, reason string, texts ...string) {
	w.Helper()
	w.soon(func() error {
		var seen []string
		for _, e := range w.events(o) {
			if e.Reason == reason && !slices.ContainsFunc(texts, func(t string) bool { return !strings.Contains(e.Message, t) }) {
				return nil
			}
			seen = append(seen, e.Reason+": "+e.Message)
		}
		return fmt.Errorf("no event %s with %q about %s, but %q", reason, texts, o.GetName(), seen)
	})
}

// tells waits for an event about o with this reason and exactly this message.
func (w *world) tells(o client.Object, reason, message string) {
	w.Helper()
	w.soon(func() error {
		if events := w.messages(o, reason); !slices.Contains(events, message) {
			return fmt.Errorf("the events %s about %s say %q, want %q", reason, o.GetName(), events, message)
		}
		return nil
	})
}

// events returns PureLB's events about o. Kubernetes tells of o too: its repair of cluster IPs, for
// one, may meet a Service before it has seen the address.
func (w *world) events(o client.Object) []corev1.Event {
	w.Helper()
	var list corev1.EventList
	must(w, w.client.List(context.Background(), &list, client.InNamespace(o.GetNamespace())))
	return slices.DeleteFunc(list.Items, func(e corev1.Event) bool {
		return e.InvolvedObject.UID != o.GetUID() || !strings.HasPrefix(e.Source.Component, "purelb-")
	})
}

// services reads all Services of type LoadBalancer.
func (w *world) services() []corev1.Service {
	w.Helper()
	var list corev1.ServiceList
	must(w, w.client.List(context.Background(), &list))
	return slices.DeleteFunc(list.Items, func(s corev1.Service) bool { return s.Spec.Type != corev1.ServiceTypeLoadBalancer })
}

// settled waits until n Services have addresses, and returns the addresses of each Service.
func (w *world) settled(n int) map[string]string {
	w.Helper()
	var have map[string]string
	w.within(2*time.Minute, func() error {
		have = map[string]string{}
		for _, svc := range w.services() {
			if a := addressesOf(&svc); a != "" {
				have[svc.Name] = a
			}
		}
		if len(have) != n {
			return fmt.Errorf("%d of %d Services have an address", len(have), n)
		}
		return nil
	})
	return have
}

// exclusive fails if two Services have an address in common.
func (w *world) exclusive() {
	w.Helper()
	holders := map[netip.Addr]string{}
	for _, svc := range w.services() {
		for _, a := range service.Ingress(&svc) {
			if other, taken := holders[a]; taken {
				w.Errorf("%s and %s both have %s", other, svc.Name, a)
			}
			holders[a] = svc.Name
		}
	}
}

// counter reads a metric without labels, or the sum over its labels.
func (r *running) counter(name string, labels ...string) float64 {
	r.world.Helper()
	families, err := r.metrics.Gather()
	must(r.world, err)
	var sum float64
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var values []string
			for _, l := range m.GetLabel() {
				values = append(values, l.GetName()+"="+l.GetValue())
			}
			if f.GetName() == name && !slices.ContainsFunc(labels, func(l string) bool { return !slices.Contains(values, l) }) {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// counts waits until a metric reads want. The allocator counts an action after the API
// server has performed it, so the metric may lag behind what the test has seen there.
func (r *running) counts(want float64, name string, labels ...string) {
	r.world.Helper()
	r.world.soon(func() error {
		if n := r.counter(name, labels...); n != want {
			return fmt.Errorf("%s %v reads %v, want %v", name, labels, n, want)
		}
		return nil
	})
}

var errNotYet = errors.New("not yet")

// each calls do n times, 16 in parallel.
func (w *world) each(n int, do func(i int) error) {
	w.Helper()
	const hands = 16
	errs := make([]error, hands)
	var wg sync.WaitGroup
	for hand := range hands {
		wg.Go(func() {
			for i := hand; i < n && errs[hand] == nil; i += hands {
				errs[hand] = do(i)
			}
		})
	}
	wg.Wait()
	must(w, errors.Join(errs...))
}
