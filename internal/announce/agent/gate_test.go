package agent

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/internal/testing/expect"
)

// besideProxy runs test in a world with this kube-proxy. node-a is the only node.
func besideProxy(t *testing.T, proxy *fakeProxy, before func(*world), test func(*world)) {
	t.Helper()
	inWorld(t, func(w *world) {
		w.agent.KubeProxy, w.agent.gate.open = proxy, false
		if before != nil {
			before(w)
		}
	}, test)
}

const carriesBoth = "192.0.2.9/24 eth0, 203.0.113.7/32 kube-lb0"

func (w *world) serveBoth() { w.serve(branded("near", "192.0.2.9"), branded("far", "203.0.113.7")) }

func TestAStartedNodeTakesNoAddressBeforeItsKubeProxyWorks(t *testing.T) {
	proxy := &fakeProxy{}
	besideProxy(t, proxy, nil, func(w *world) {
		w.serveBoth()
		pass(time.Minute)
		expect.Equal(t, "without kube-proxy", w.kernel.String(), "")
		expect.Equal(t, "the other nodes hear", w.peers.draining(), waitingText)
		expect.Equal(t, "the log", w.logged("address"), "subnetsChanged\nwaitingForKubeProxy 203.0.113.7\nwaitingForKubeProxy 192.0.2.9")
		proxy.works = true
		pass(askEvery + otherFamily/2)
		expect.Equal(t, "while kube-proxy writes the rules of the other family", w.kernel.String(), "")
		pass(otherFamily)
		expect.Equal(t, "with kube-proxy", w.kernel.String(), carriesBoth)
		expect.Equal(t, "the other nodes hear", w.peers.draining(), "")
	})
}

func TestTheOtherFamilyGetsAsLongAsTheFirst(t *testing.T) {
	proxy := &fakeProxy{}
	besideProxy(t, proxy, nil, func(w *world) {
		w.serveBoth()
		pass(time.Minute)
		proxy.starts = true
		pass(6 * time.Second)
		proxy.starts, proxy.works = false, true
		pass(5 * time.Second)
		expect.Equal(t, "while kube-proxy writes the rules of the other family", w.kernel.String(), "")
		pass(2 * time.Second)
		expect.Equal(t, "with kube-proxy", w.kernel.String(), carriesBoth)
	})
}

func TestARestartedAgentWaitsForNothing(t *testing.T) {
	besideProxy(t, &fakeProxy{works: true}, nil, func(w *world) {
		w.serveBoth()
		pass(time.Second)
		expect.Equal(t, "where kube-proxy works", w.kernel.String(), carriesBoth)
	})
	besideProxy(t, &fakeProxy{}, func(w *world) {
		w.kernel.hold(ours("eth0", "192.0.2.9/24", time.Minute))
	}, func(w *world) {
		w.serveBoth()
		pass(time.Second)
		expect.Equal(t, "where kube-proxy is away, on a node with addresses", w.kernel.String(), carriesBoth)
		expect.Equal(t, "the other nodes hear", w.peers.draining(), "")
	})
}

func TestANodeGoesOnWithoutAnAnswer(t *testing.T) {
	proxy := &fakeProxy{}
	besideProxy(t, proxy, nil, func(w *world) {
		w.serveBoth()
		pass(noAnswerFor - time.Second)
		expect.Equal(t, "before", w.kernel.String(), "")
		w.reported()
		pass(3 * time.Second)
		expect.Equal(t, "after", w.kernel.String(), carriesBoth)
		expect.Contains(t, "the events", w.reported(), "Warning KubeProxySilent Node node-a announces addresses although its kube-proxy has not answered for 2m0s")
		expect.Contains(t, "the Lease", w.peers.publications(), "although its kube-proxy")
		proxy.works = true
		pass(2 * time.Second)
		expect.Equal(t, "the Lease when kube-proxy works", w.peers.publications(), "[192.0.2.0/24 2001:db8::/64] purelb/default ")
	})
}

func TestAKubeProxyThatSaysNoIsAwaitedForLong(t *testing.T) {
	besideProxy(t, &fakeProxy{saysNo: true}, nil, func(w *world) {
		w.serveBoth()
		pass(10 * time.Minute)
		expect.Equal(t, "the addresses", w.kernel.String(), "")
	})
}

// localPolicy returns a Service with the policy Local and this health port.
func localPolicy(name string, port int32, ips ...string) corev1.Service {
	svc := branded(name, ips...)
	svc.Spec.ExternalTrafficPolicy, svc.Spec.HealthCheckNodePort = corev1.ServiceExternalTrafficPolicyLocal, port
	return svc
}

func TestANodeTakesAnAddressWhenItsKubeProxyServesTheEndpoint(t *testing.T) {
	proxy := &fakeProxy{works: true, serves: map[uint16]bool{}}
	besideProxy(t, proxy, nil, func(w *world) {
		on := func(nodes ...string) {
			w.cluster.change(func(o *objects) { o.Endpoints = map[string][]string{"default/far": nodes} })
			settle()
		}
		w.serve(localPolicy("far", 30001, "203.0.113.7"))
		on("node-a")
		pass(time.Minute)
		expect.Equal(t, "before kube-proxy serves it", w.kernel.String(), "")
		proxy.serves[30001] = true
		pass(2 * time.Second)
		expect.Equal(t, "when it does", w.kernel.String(), "203.0.113.7/32 kube-lb0")
		proxy.serves[30001] = false
		pass(time.Minute)
		expect.Equal(t, "kube-proxy alone removes nothing", w.kernel.String(), "203.0.113.7/32 kube-lb0")
		on("node-b")
		pass(5 * time.Second)
		expect.Equal(t, "without an endpoint", w.kernel.String(), "")
		asked := proxy.asked
		pass(time.Minute)
		expect.Equal(t, "more questions without an endpoint", proxy.asked-asked, 0)
		on("node-a", "node-b")
		pass(5 * time.Second)
		expect.Equal(t, "an endpoint that returns", w.kernel.String(), "")
		proxy.serves[30001] = true
		pass(2 * time.Second)
		expect.Equal(t, "when kube-proxy serves it", w.kernel.String(), "203.0.113.7/32 kube-lb0")
	})
}

func TestAServiceWithoutAnAnswerWaitsTenSeconds(t *testing.T) {
	besideProxy(t, &fakeProxy{works: true, silent: true}, nil, func(w *world) {
		w.cluster.change(func(o *objects) { o.Endpoints = map[string][]string{"default/far": {"node-a"}} })
		w.serve(localPolicy("far", 30001, "203.0.113.7"))
		pass(unansweredFor - time.Second)
		expect.Equal(t, "before", w.kernel.String(), "")
		pass(3 * time.Second)
		expect.Equal(t, "after", w.kernel.String(), "203.0.113.7/32 kube-lb0")
	})
}
