package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"purelb.io/purelb/lab/cluster"
	"purelb.io/purelb/lab/kube"
	"purelb.io/purelb/lab/probe"
	"purelb.io/purelb/lab/product"
	"purelb.io/purelb/lab/router"
)

// world is the cluster of one test. The test has its own namespace, which is empty at first. All
// tests share the groups.
type world struct {
	t   testing.TB
	ctx context.Context
	*kube.Client
	net *safetyNet
	// started is the second in which the test started.
	started time.Time
}

const groups = `
apiVersion: purelb.io/v2
kind: ServiceGroup
metadata: {name: local, namespace: purelb-system}
spec:
  local:
    v4pools: [{subnet: 172.30.250.0/24, pool: 172.30.250.120-172.30.250.180}]
    v6pools: [{subnet: "2001:db8:1:250::/64", pool: "2001:db8:1:250:b::1-2001:db8:1:250:b::ff"}]
---
apiVersion: purelb.io/v2
kind: ServiceGroup
metadata: {name: remote, namespace: purelb-system}
spec:
  remote:
    v4pools: [{subnet: 10.255.1.0/24, pool: 10.255.1.0/24, aggregation: /32}]
    v6pools: [{subnet: "fd00:10:255:1::/64", pool: "fd00:10:255:1::/64", aggregation: /128}]
`

const namespace = "e2e"

func newWorld(t testing.TB) *world {
	t.Helper()
	return newWorldFor(t, 0)
}

// newWorldFor is newWorld for a test that takes a time of busy.
func newWorldFor(t testing.TB, busy time.Duration) *world {
	t.Helper()
	// A test that takes longer hangs. The error of its wait says what it waits for.
	ctx, cancel := context.WithTimeoutCause(context.Background(), busy+10*time.Minute, fmt.Errorf("the test took too long"))
	w := &world{t: t, ctx: ctx, Client: lab.kube, started: time.Now().Truncate(time.Second)}
	w.net = w.spread()
	w.apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: "+namespace+"}\n", groups, peering(withBFD))
	t.Cleanup(func() {
		if t.Failed() {
			w.tell()
		}
		w.empty()
		w.catch()
		cancel()
	})
	return w
}

// empty removes the objects of the test and waits until they are gone. So the next test begins with
// free pools and without addresses on interfaces.
func (w *world) empty() {
	w.t.Helper()
	background := client.PropagationPolicy(metav1.DeletePropagationBackground)
	for _, kind := range []client.Object{&appsv1.Deployment{}, &corev1.Pod{}, &corev1.Service{}} {
		if err := w.DeleteAllOf(w.ctx, kind, client.InNamespace(namespace), background); err != nil {
			w.t.Errorf("empty the namespace: %v", err)
		}
	}
	w.until(3*patience, "there are no pods", func() bool { return len(w.pods("")) == 0 })
	// kube-proxy sends packets to the endpoints of all slices with the name of a Service. The garbage
	// collector, which removes the slices of a deleted Service, can be late: it stops for a while when
	// custom resource definitions come and go. The next test has Services of the same names.
	if err := w.DeleteAllOf(w.ctx, &discoveryv1.EndpointSlice{}, client.InNamespace(namespace)); err != nil {
		w.t.Errorf("empty the namespace: %v", err)
	}
	// A node that was cut off uses its last state until its agent notices that its connection to the
	// API server is dead. Until then, it takes addresses from which other nodes withdraw.
	for _, node := range lab.powered() {
		w.until(2*patience, "the agent on "+node+" knows that the Services are gone", func() bool {
			state, err := w.fetch(node, "127.0.0.1:7472/state")
			return err == nil && !strings.Contains(state, `"service":"`+namespace+"/")
		})
	}
}

func (w *world) apply(documents ...string) {
	w.t.Helper()
	if err := w.Apply(w.ctx, strings.Join(documents, "\n---\n")); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) remove(documents ...string) {
	w.t.Helper()
	if err := w.Remove(w.ctx, strings.Join(documents, "\n---\n")); err != nil {
		w.t.Error(err)
	}
}

// patience is the time limit of a wait for an expected change. It is no promise: a machine that is
// three times slower than usual may need that long. If a promise has a time, its test has a limit of
// its own.
const patience = time.Minute

// until waits for a condition that must become true.
func (w *world) until(limit time.Duration, what string, condition func() bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, limit)
	defer cancel()
	if err := kube.Until(ctx, func() (string, bool) { return "not yet", condition() }); err != nil {
		w.t.Fatalf("waiting until %s: %v", what, err)
	}
}

func (w *world) service(name string) *corev1.Service {
	w.t.Helper()
	s, err := w.Service(w.ctx, namespace, name)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// addresses waits until a Service has n addresses, and returns them.
func (w *world) addresses(name string, n int) []netip.Addr {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	got, err := w.WaitAddresses(ctx, namespace, name, n)
	if err != nil {
		w.t.Fatal(err)
	}
	return got
}

// answers waits until the client outside gets forty answers in a row from the web server of each
// address. The router selects the nodes. So after forty answers, kube-proxy knows the Service on all
// nodes. Then each of twenty more requests must get an answer.
func (w *world) answers(addresses ...netip.Addr) {
	w.t.Helper()
	w.deploymentReady("web")
	for _, a := range addresses {
		target := netip.AddrPortFrom(a, 80)
		if err := w.awaitVisits(target, 40); err != nil {
			w.t.Fatalf("waiting until %s answers the client outside: %v", target, err)
		}
		if err := w.visit(target, 20); err != nil {
			w.t.Errorf("%s no longer answers the client outside: %v", target, err)
		}
	}
}

// awaitVisits waits until n visits in a row succeed. Its error has the error of the last visit.
func (w *world) awaitVisits(target netip.AddrPort, n int) error {
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	return kube.Until(ctx, func() (string, bool) {
		err := w.visit(target, n)
		return fmt.Sprint(err), err == nil
	})
}

// visit sends n requests to target from the client outside. The router asks the segment for a local address
// first.
func (w *world) visit(target netip.AddrPort, n int) error {
	if err := router.Forget(lab.Netns(cluster.Router), target.Addr()); err != nil {
		return err
	}
	for range n {
		body, err := probe.Get(w.ctx, lab.Netns("client"), target)
		if err != nil {
			return err
		}
		if !strings.Contains(body, "pod=") {
			return fmt.Errorf("another server answers: %q", body)
		}
	}
	return nil
}

// probe sends a datagram to the echo server of an address every 10 ms. It returns after the first
// hundred datagrams, so that each interruption has answers before it.
func (w *world) probe(a netip.Addr) *probe.Probe {
	w.t.Helper()
	p, err := probe.Start(w.ctx, lab.Netns("client"), netip.AddrPortFrom(a, 82), 10*time.Millisecond)
	if err != nil {
		w.t.Fatal(err)
	}
	w.until(patience, "the probe is under way", func() bool { return p.Sent() >= 100 })
	return p
}

// fetch returns what a web server says to a machine.
func (w *world) fetch(machine, url string) (string, error) {
	return lab.Exec(w.ctx, machine, "curl", "--silent", "--fail", "--max-time", "10", "http://"+url)
}

// holder is an interface that carries an address.
type holder struct{ node, link string }

// holders returns the interfaces of all nodes with power that carry an address. It reads them from
// the kernels of the nodes.
func (w *world) holders(a netip.Addr) []holder {
	w.t.Helper()
	var out []holder
	for _, n := range lab.powered() {
		links, err := lab.carriers(n, a)
		if err != nil {
			w.t.Fatalf("read the addresses of %s: %v", n, err)
		}
		for _, l := range links {
			out = append(out, holder{n, l})
		}
	}
	return out
}

func (w *world) holderNodes(a netip.Addr) []string {
	var out []string
	for _, h := range w.holders(a) {
		out = append(out, h.node)
	}
	sort.Strings(out)
	return out
}

// routes waits until the next hops of the router for each address are exactly the nodes that carry
// it.
func (w *world) routes(addresses ...netip.Addr) {
	w.t.Helper()
	for _, a := range addresses {
		w.until(patience, fmt.Sprintf("the router reaches %s through all nodes that carry it", a), func() bool {
			return equal(w.nextHops(host(a)), w.holderNodes(a))
		})
	}
}

func host(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

// nextHops returns the nodes that are next hops for a prefix in the kernel of the router.
func (w *world) nextHops(p netip.Prefix) []string {
	w.t.Helper()
	route, err := router.To(lab.Netns("router"), p)
	if err != nil {
		w.t.Fatal(err)
	}
	return lab.names(route.Via)
}

func (w *world) pods(app string) []corev1.Pod {
	w.t.Helper()
	labels := client.MatchingLabels{}
	if app != "" {
		labels["app"] = app
	}
	pods, err := w.Pods(w.ctx, namespace, labels)
	if err != nil {
		w.t.Fatal(err)
	}
	return pods
}

// podNodes returns the nodes that have a pod of the app.
func (w *world) podNodes(app string) []string {
	seen := map[string]bool{}
	for _, p := range w.pods(app) {
		if p.DeletionTimestamp == nil {
			seen[p.Spec.NodeName] = true
		}
	}
	var out []string
	for n := range seen {
		out = append(out, n)
	}
	sort.Strings(out)
	return out
}

func (w *world) deploymentReady(name string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, 2*patience)
	defer cancel()
	if err := w.WaitDeployment(ctx, namespace, name); err != nil {
		w.t.Fatal(err)
	}
}

// eventually waits for an event with the reason in the test's namespace. Events live for an hour, so
// those from before the test do not count.
func (w *world) eventually(reason string) { w.eventuallyIn(namespace, reason) }

func (w *world) eventuallyIn(namespace, reason string) {
	w.t.Helper()
	w.until(patience, "there is an event "+reason, func() bool {
		var events corev1.EventList
		if err := w.List(w.ctx, &events, client.InNamespace(namespace)); err != nil {
			w.t.Fatal(err)
		}
		for _, e := range events.Items {
			if e.Reason == reason && !e.LastTimestamp.Time.Before(w.started) {
				return true
			}
		}
		return false
	})
}

// podsOf returns the pods of a component of the product.
func (w *world) podsOf(component string) []corev1.Pod {
	w.t.Helper()
	pods, err := w.Pods(w.ctx, product.Namespace, client.MatchingLabels{"component": component})
	if err != nil {
		w.t.Fatal(err)
	}
	return pods
}

// productPod returns the ready pod of a component of the product on a node (or
// on any, when node is "").
func (w *world) productPod(component, node string) (corev1.Pod, bool) {
	w.t.Helper()
	for _, p := range w.podsOf(component) {
		if p.DeletionTimestamp == nil && (node == "" || p.Spec.NodeName == node) && ready(p) {
			return p, true
		}
	}
	return corev1.Pod{}, false
}

// ready reports whether a pod is ready and its node has power. In the API server, the pods of a node
// without power stay ready for some time.
func ready(p corev1.Pod) bool {
	since, on := lab.Since(p.Spec.NodeName)
	for _, c := range p.Status.ContainerStatuses {
		if !on || c.State.Running == nil || c.State.Running.StartedAt.Time.Before(since.Truncate(time.Second)) {
			return false
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// readyPod waits until a component has a ready pod on a node (or on any, when node is
// ""), and returns it.
func (w *world) readyPod(component, node string) (pod corev1.Pod) {
	w.t.Helper()
	w.until(2*patience, fmt.Sprintf("there is a ready %s pod on node %q", component, node), func() (ok bool) {
		pod, ok = w.productPod(component, node)
		return ok
	})
	return pod
}

// replace deletes the pods of a component on a node (or on all nodes, when node is ""), and waits until another one
// is ready.
func (w *world) replace(component, node string) {
	w.t.Helper()
	pods := slices.DeleteFunc(w.podsOf(component), func(p corev1.Pod) bool { return node != "" && p.Spec.NodeName != node })
	for i := range pods {
		if err := client.IgnoreNotFound(w.Delete(w.ctx, &pods[i])); err != nil {
			w.t.Fatal(err)
		}
	}
	w.until(3*patience, fmt.Sprintf("another %s is ready on node %q", component, node), func() bool {
		p, ok := w.productPod(component, node)
		return ok && !slices.ContainsFunc(pods, func(old corev1.Pod) bool { return old.UID == p.UID })
	})
}

// restartAgent replaces the agent of a node, which must be ready.
func (w *world) restartAgent(node string) {
	w.t.Helper()
	w.agentReady(node)
	w.replace("lbnodeagent", node)
}

// restartAllocator replaces the allocator, which must be ready.
func (w *world) restartAllocator() {
	w.t.Helper()
	w.readyPod("allocator", "")
	w.replace("allocator", "")
}

func (w *world) agentReady(node string) {
	w.t.Helper()
	w.readyPod("lbnodeagent", node)
}

func equal[T any](a, b []T) bool { return len(a) == 0 && len(b) == 0 || reflect.DeepEqual(a, b) }

// echo returns a Deployment of servers that answer on 8080 (HTTP), 8081 (lines) and 8082
// (datagrams), on any nodes or on the named ones.
func echo(name string, replicas int, nodes ...string) string {
	where := ""
	if len(nodes) > 0 {
		where = fmt.Sprintf(`affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [%s]}]}]}}}`, strings.Join(nodes, ", "))
	}
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, namespace: e2e}
spec:
  replicas: %[2]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      terminationGracePeriodSeconds: 1
      %[3]s
      containers:
      - name: echo
        image: docker.io/lab/echo:1
        imagePullPolicy: IfNotPresent
        env:
        - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        - {name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
        readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
        resources: {requests: {cpu: 10m, memory: 16Mi}}
`, name, replicas, where)
}

// families returns how many families Services have in this world.
func families() int { return len(lab.World().Families) }

// familyPolicy returns the ipFamilyPolicy for all families of this world.
func familyPolicy() corev1.IPFamilyPolicy {
	if families() == 1 {
		return corev1.IPFamilyPolicySingleStack
	}
	return corev1.IPFamilyPolicyRequireDualStack
}

// service returns a Service of all families in front of the pods of app web.
func service(name, group string, spec ...string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: %s, namespace: e2e, annotations: {purelb.io/service-group: %s}}
spec:
  type: LoadBalancer
  ipFamilyPolicy: %s
  selector: {app: web}
  ports:
  - {name: http, port: 80, targetPort: 8080, protocol: TCP}
  - {name: lines, port: 81, targetPort: 8081, protocol: TCP}
  - {name: datagrams, port: 82, targetPort: 8082, protocol: UDP}
  %s
`, name, group, familyPolicy(), strings.Join(spec, "\n  "))
}

// annotated returns the service with one more annotation.
func annotated(service, annotation string) string {
	return strings.Replace(service, "annotations: {", "annotations: {"+annotation+", ", 1)
}

// server returns another server of web on a node. It serves for two more seconds after SIGTERM, as
// servers with a drain time do.
func server(name, node string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: e2e, labels: {app: web}}
spec:
  nodeName: %s
  terminationGracePeriodSeconds: 8
  containers:
  - name: echo
    image: docker.io/lab/echo:1
    imagePullPolicy: IfNotPresent
    env:
    - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    - {name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
    lifecycle: {preStop: {sleep: {seconds: 4}}}
    readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
    resources: {requests: {cpu: 10m, memory: 16Mi}}
`, name, node)
}
