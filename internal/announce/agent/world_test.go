package agent

import (
	"bytes"
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/nodes/membership"
	"purelb.io/purelb/internal/service"
)

// world is an agent on node-a with a fake kernel, cluster and peers.
type world struct {
	kernel  *fakeKernel
	cluster *fakeCluster
	peers   *fakePeers
	notes   *fakeAnnotations
	events  *record.FakeRecorder
	metrics *Metrics
	log     bytes.Buffer
	logLock sync.Mutex
	agent   *Agent
	// end stops the agent and waits until it has ended.
	end func()
}

func (w *world) Write(p []byte) (int, error) {
	w.logLock.Lock()
	defer w.logLock.Unlock()
	return w.log.Write(p)
}

// logged returns the messages since the last call, with the values of some attributes.
func (w *world) logged(attributes ...string) string {
	w.logLock.Lock()
	defer w.logLock.Unlock()
	text := w.log.String()
	w.log.Reset()
	var lines []string
	for line := range strings.Lines(text) {
		var words []string
		for _, name := range append([]string{"msg"}, attributes...) {
			if _, value, ok := strings.Cut(line, " "+name+"="); ok {
				value, _, _ = strings.Cut(strings.TrimSpace(value), " ")
				words = append(words, value)
			}
		}
		lines = append(lines, strings.Join(words, " "))
	}
	return strings.Join(lines, "\n")
}

// reported returns the events since the last call.
func (w *world) reported() string {
	var events []string
	for {
		select {
		case e := <-w.events.Events:
			events = append(events, e)
		default:
			return strings.Join(events, "\n")
		}
	}
}

// slots returns the announcing annotations of a Service.
func (w *world) slots(name string) string {
	w.cluster.mu.Lock()
	defer w.cluster.mu.Unlock()
	for _, svc := range w.cluster.snapshot.Services {
		if svc.Name == name {
			return strings.TrimSpace(svc.Annotations[service.AnnotationAnnouncingIPv4] + " " + svc.Annotations[service.AnnotationAnnouncingIPv6])
		}
	}
	return "no such Service"
}

var subnets = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/64")}

func peer(name string) election.Member {
	return election.Member{Node: name, Subnets: subnets, Eligible: true}
}

// inWorld runs test in a world with its own time. node-a is the only node.
func inWorld(t *testing.T, before func(*world), test func(*world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{kernel: newFakeKernel()}
		w.cluster = &fakeCluster{changed: make(chan struct{}, 1), snapshot: objects{Snapshot: Snapshot{
			Node:   &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a", UID: "node-a-uid"}},
			Groups: []v2.ServiceGroup{localGroup("local", "192.0.2.0/25", "2001:db8::/96"), remoteGroup("remote", "203.0.113.0/24", "2001:db8:9::/64")},
			Agents: []v2.LBNodeAgent{lbNodeAgent("default", v2.InterfaceSpec{})},
		}}}
		w.peers = &fakePeers{changed: make(chan struct{}, 1), received: make(chan membership.Message, 16), peers: election.Peers{Members: []election.Member{peer("node-a")}, Known: subnets, Trusted: true}}
		w.notes = &fakeAnnotations{cluster: w.cluster}
		w.events = record.NewFakeRecorder(10000)
		w.metrics = NewMetrics(prometheus.NewRegistry(), 1000)
		w.agent = New(Options{
			Node: "node-a", Namespace: "purelb", Kernel: w.kernel, Cluster: w.cluster, Peers: w.peers, Annotations: w.notes,
			Events: w.events, Metrics: w.metrics, Log: slog.New(slog.NewTextHandler(w, nil)),
		})
		if before != nil {
			before(w)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.agent.Run(ctx) }()
		w.end = sync.OnceFunc(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("the agent ended with %v", err)
			}
		})
		synctest.Wait()
		test(w)
		w.end()
	})
}

// settle gives the agent time for all its work.
func settle() { pass(time.Millisecond) }

// pass lets time pass. Then it waits until the agent has done the work that is due. Otherwise that
// work would run at the same time as the test.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func localGroup(name, v4, v6 string) v2.ServiceGroup {
	return v2.ServiceGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "purelb", Name: name, UID: types.UID(name), Generation: 1},
		Spec:       v2.ServiceGroupSpec{Local: &v2.LocalSpec{Pools: pools(v4, v6), Announce: "local"}},
	}
}

func remoteGroup(name, v4, v6 string) v2.ServiceGroup {
	return v2.ServiceGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "purelb", Name: name, UID: types.UID(name), Generation: 1},
		Spec:       v2.ServiceGroupSpec{Remote: &v2.RemoteSpec{Pools: pools(v4, v6)}},
	}
}

func pools(v4, v6 string) v2.Pools {
	return v2.Pools{
		V4Pool: &v2.AddressPool{Pool: v2.Range(v4), Subnet: v2.Subnet(v4), Aggregation: "/32"},
		V6Pool: &v2.AddressPool{Pool: v2.Range(v6), Subnet: v2.Subnet(v6), Aggregation: "/128"},
	}
}

func lbNodeAgent(name string, spec v2.InterfaceSpec) v2.LBNodeAgent {
	return v2.LBNodeAgent{
		ObjectMeta: metav1.ObjectMeta{Namespace: "purelb", Name: name, UID: types.UID(name), Generation: 1},
		Spec:       v2.LBNodeAgentSpec{Local: &spec},
	}
}

// branded returns a Service with these addresses from PureLB.
func branded(name string, ips ...string) corev1.Service {
	svc := corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID(name), ResourceVersion: "1", CreationTimestamp: metav1.Now(),
			Annotations: map[string]string{service.AnnotationAllocatedBy: service.Brand},
		},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, ClusterIP: "10.96.0.10"},
	}
	for _, ip := range ips {
		svc.Status.LoadBalancer.Ingress = append(svc.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip})
	}
	return svc
}

// serving sets the Services of the cluster.
func serving(services ...corev1.Service) func(*objects) {
	return func(s *objects) {
		s.Services = nil
		for i := range services {
			s.Services = append(s.Services, *services[i].DeepCopy())
		}
	}
}

// serve sets the Services of the cluster, and gives the agent time for them.
func (w *world) serve(services ...corev1.Service) {
	w.cluster.change(serving(services...))
	settle()
}

// excluded excludes the node from the election.
func excluded(s *objects) {
	s.Node = s.Node.DeepCopy()
	s.Node.Labels = map[string]string{corev1.LabelNodeExcludeBalancers: ""}
}

// known sets the addresses of the node in Kubernetes.
func known(ips ...string) func(*objects) {
	return func(s *objects) {
		s.Node = s.Node.DeepCopy()
		s.Node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "node-a"}}
		for _, ip := range ips {
			s.Node.Status.Addresses = append(s.Node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip})
		}
	}
}

// lacks fails the test if part is in got.
func lacks(t *testing.T, what, got, part string) {
	t.Helper()
	if strings.Contains(got, part) {
		t.Errorf("%s: %q in\n%s", what, part, got)
	}
}
