package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/lab/cluster"
	"purelb.io/purelb/lab/internal/spec"
	"purelb.io/purelb/lab/probe"
)

// Promise: a node attracts traffic only when it can forward it.

// visitors are clients that visit addresses, by TCP and UDP, every 20 ms each.
type visitors struct {
	*world
	of map[string]*probe.Visitor
}

func (w *world) visitors(addresses ...netip.Addr) *visitors {
	w.t.Helper()
	v := &visitors{w, map[string]*probe.Visitor{}}
	for _, a := range addresses {
		for network, port := range map[string]uint16{"tcp": 80, "udp": 82} {
			one := probe.Visit(w.ctx, lab.Netns("client"), network, netip.AddrPortFrom(a, port), 20*time.Millisecond)
			v.of[network+" "+a.String()] = one
			w.t.Cleanup(func() { one.Stop() })
		}
	}
	return v
}

// end returns the results, by the names of the visitors.
func (v *visitors) end(what string) (results map[string]probe.Visits, slowest time.Duration) {
	v.t.Helper()
	results = map[string]probe.Visits{}
	for _, name := range slices.Sorted(maps.Keys(v.of)) {
		visits := v.of[name].Stop()
		v.t.Logf("%s, %s: %s", what, name, visits)
		results[name], slowest = visits, max(slowest, visits.Slowest)
	}
	return results, slowest
}

// mostReset is how many connections may break that are opened just as the router chooses among other nodes: its
// kernel does not keep the choice of a connection. A router that alternates between two nodes, both of which
// always serve, breaks one in a thousand.
const mostReset = 2

// lost fails the test if a visit failed, but for as many resets of each client. It returns the time of the slowest
// one.
func (v *visitors) lost(what string, resets int) (slowest time.Duration) {
	v.t.Helper()
	results, slowest := v.end(what)
	for name, visits := range results {
		if visits.Failed > visits.Reset || visits.Reset > resets {
			v.t.Errorf("%s: clients of %s got no answer: %s", what, name, visits)
		}
	}
	return slowest
}

// besidesKubeProxy makes agents and speakers reach the API server without kube-proxy, until the end of the
// test.
func (w *world) besidesKubeProxy() {
	w.t.Helper()
	cp, err := lab.Machine(cluster.ControlPlane)
	if err != nil {
		w.t.Fatal(err)
	}
	values := append(slices.Clone(lab.World().Values), allAtOnce, "lbnodeagent.apiServer.host="+lab.Spec.Plan.Primary(cp).String(),
		fmt.Sprintf("lbnodeagent.apiServer.port=%d", spec.APIPort))
	w.t.Cleanup(func() {
		if err := lab.restore(); err != nil {
			w.t.Error(err)
		}
	})
	if err := lab.tree.Install(w.ctx, lab.Cluster, lab.Kubeconfig(), values...); err != nil {
		w.t.Fatal(err)
	}
}

// proxyLate is how long kube-proxy of a node that boots is late.
const proxyLate = 30 * time.Second

func TestANodeThatBootsAttractsNothingBeforeItsKubeProxyWorks(t *testing.T) {
	w := newWorld(t)
	w.besidesKubeProxy()
	// Without kube-proxy, the allocator does not reach the API server.
	node := "node-1"
	if w.readyPod("allocator", "").Spec.NodeName == node {
		node = "node-2"
	}
	w.t.Cleanup(func() {
		if err := lab.Start(context.Background(), node, "kube-proxy"); err != nil {
			t.Error(err)
		}
	})
	w.apply(echo("web", 2, "node-3", "node-4"), service("near", "local"), service("far", "remote"))
	near, far := w.addresses("near", families()), w.addresses("far", families())
	w.sessions()
	w.everywhere(far...)
	w.answers(append(slices.Clone(near), far...)...)
	w.crash(node)
	for _, a := range far {
		w.until(patience, "the router does not send "+a.String()+" to "+node, func() bool { return !slices.Contains(w.nextHops(host(a)), node) })
	}
	for _, a := range near {
		w.until(patience, a.String()+" is on another node", func() bool { return len(w.holders(a)) == 1 })
	}
	time.Sleep(3 * time.Second)

	v := w.visitors(append(slices.Clone(near), far...)...)
	began := time.Now()
	lab.boot(t, node, "kube-proxy")
	w.agentReady(node)
	t.Logf("the agent of %s is ready %s after the boot", node, time.Since(began).Round(time.Second/10))
	var fresh []*visitors
	for i := range 6 {
		name := fmt.Sprintf("fresh-%d", i)
		w.apply(service(name, "local"))
		addresses := w.addresses(name, families())
		for _, a := range addresses {
			w.until(patience, a.String()+" is on a node", func() bool { return len(w.holders(a)) == 1 })
			if holder := w.holderNodes(a); slices.Contains(holder, node) {
				t.Errorf("%s of a new Service is on %s, whose kube-proxy does not run", a, node)
			}
		}
		w.answers(addresses...)
		fresh = append(fresh, w.visitors(addresses...))
	}
	for _, a := range append(slices.Clone(near), far...) {
		if holders := w.holderNodes(a); slices.Contains(holders, node) {
			t.Errorf("%s has %s although its kube-proxy does not run", node, a)
		}
	}
	time.Sleep(time.Until(began.Add(proxyLate)))
	if err := lab.Start(w.ctx, node, "kube-proxy"); err != nil {
		t.Fatal(err)
	}
	started := time.Now()
	w.everywhere(far...)
	t.Logf("%s is a next hop %s after the start of its kube-proxy", node, time.Since(started).Round(time.Second/10))
	time.Sleep(3 * time.Second)
	v.lost("the boot", mostReset)
	for _, one := range fresh {
		one.lost("a new Service", 0)
	}
}

// mostDelay is how much longer a visit may take where endpoints move. A client repeats a lost packet after a
// second. On a quiet machine the slowest visit takes less than 100 ms, on a busy one a few hundred.
const mostDelay = 500 * time.Millisecond

func TestTrafficPolicyLocalLosesNothingWhileEndpointsMove(t *testing.T) {
	w := newWorld(t)
	w.peer(withoutBFD) // a machine that stands still for a second ends sessions of BFD
	// The first pod of a node makes the bridge of the pods, whose IPv6 addresses are tentative for a second.
	w.apply(onePerNode("warm", echo("warm", len(lab.Nodes()))))
	w.deploymentReady("warm")
	w.apply(stopping("lifecycle: {preStop: {sleep: {seconds: 8}}}"), service("far", "remote", "externalTrafficPolicy: Local"), service("even", "remote"))
	addresses, even := w.addresses("far", families()), w.addresses("even", families())
	w.answers(even...)
	w.followPods(addresses)

	during := func(what string, change func()) {
		t.Helper()
		v, control := w.visitors(addresses...), w.visitors(even...)
		change()
		w.followPods(addresses)
		time.Sleep(3 * time.Second)
		_, usual := control.end(what + ", with the policy Cluster") // kube-proxy alone may lose some
		if slowest := v.lost(what, mostReset); slowest > usual+mostDelay {
			t.Errorf("%s: the slowest visit took %s, and %s with the policy Cluster", what, slowest, usual)
		}
	}
	for range 2 {
		during("1 to 4 endpoints", func() { w.scale("web", 4) })
		during("4 to 1 endpoints", func() { w.scale("web", 1) })
	}
	w.scale("web", 4)
	w.followPods(addresses)
	during("a rollout", func() { w.rollout("web") })
	during("a rollout to servers that linger by themselves", func() {
		w.apply(strings.Replace(stopping("", "- {name: LINGER, value: 8s}"), "replicas: 1", "replicas: 4", 1))
		w.ended("web")
	})
	during("a rollout without preStop", func() { w.rollout("web") })
}

// stopping returns the Deployment web, one pod on each node, whose servers serve for eight seconds after the
// begin of their end: by this lifecycle of the container, or by more in its environment.
func stopping(lifecycle string, env ...string) string {
	d := strings.Replace(onePerNode("web", echo("web", 1)), "terminationGracePeriodSeconds: 1", "terminationGracePeriodSeconds: 12", 1)
	d = strings.Replace(d, "        env:\n", "        env:\n"+indented(env), 1)
	return strings.Replace(d, "        readinessProbe:", "        "+lifecycle+"\n        readinessProbe:", 1)
}

func indented(lines []string) (text string) {
	for _, line := range lines {
		text += "        " + line + "\n"
	}
	return text
}

// onePerNode spreads the pods of a Deployment over the nodes, and lets a rollout start a pod before it ends
// another.
func onePerNode(app, deployment string) string {
	deployment = strings.Replace(deployment, "  selector: {matchLabels", "  strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}\n  selector: {matchLabels", 1)
	return strings.Replace(deployment, "      containers:", "      topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, "+
		"whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: "+app+"}}}]\n      containers:", 1)
}

// scale changes the number of pods, and waits until they are ready and the others are gone.
func (w *world) scale(name string, replicas int) {
	w.t.Helper()
	kubectl(w, "scale", "deployment", name, "--namespace", namespace, fmt.Sprintf("--replicas=%d", replicas))
	w.deploymentReady(name)
	w.until(2*patience, "the other pods are gone", func() bool { return len(w.pods(name)) == replicas })
}

// rollout replaces all pods, and waits until the old ones are gone.
func (w *world) rollout(name string) {
	w.t.Helper()
	kubectl(w, "rollout", "restart", "deployment/"+name, "--namespace", namespace)
	w.ended(name)
}

// ended waits until a rollout has ended, and the old pods are gone.
func (w *world) ended(name string) {
	w.t.Helper()
	kubectl(w, "rollout", "status", "deployment/"+name, "--namespace", namespace, "--timeout=5m")
	w.until(2*patience, "the old pods are gone", func() bool {
		return !slices.ContainsFunc(w.pods(name), func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
	})
}

// followPods waits until the router sends the addresses to the nodes with a pod of web.
func (w *world) followPods(addresses []netip.Addr) {
	w.t.Helper()
	for _, a := range addresses {
		w.until(patience, fmt.Sprintf("the router sends %s to the nodes with a pod", a), func() bool {
			return equal(w.nextHops(host(a)), w.podNodes("web"))
		})
	}
}
