package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"

	"purelb.io/purelb/internal/service"
	"purelb.io/purelb/internal/testing/apitest"
	"purelb.io/purelb/internal/testing/expect"
)

const (
	// bulk is how many Services there are, quiet how long nothing happens
	// before it is measured what that costs, and watched for how long.
	bulk           = 10_000
	quiet, watched = 20 * time.Second, time.Minute
	// events is how often an idle agent has something to do in a second: it beats
	// every 64 ms.
	events = 16
)

// mostMemory is the limit of what an agent may use, in MB, and mostIdle that of what
// it may use of a processor when it has nothing to do, in percent.
const mostMemory, mostIdle = 45, 0.8

// BenchmarkIdle10k measures what an agent costs that has 10,000 addresses, two
// others to gossip with and nothing to do. All three are processes of their own
// in one network namespace, with an API server in which the Services come to be
// past it, as it would need minutes for them.
//
// What it costs to wake up depends on the machine, and is most of what an idle
// agent costs. So it is compared with a program that does nothing else.
func BenchmarkIdle10k(b *testing.B) {
	if os.Getenv(asChild) == "" {
		inFreshNamespace(b)
		return
	}
	w := newIdleWorld(b)
	for b.Loop() {
		w.measure()
	}
}

// inFreshNamespace runs the benchmark in a network namespace of its own.
func inFreshNamespace(b *testing.B) {
	b.Helper()
	cmd := child(b, "benchmark", "-test.run=^$", "-test.bench=^BenchmarkIdle10k$", "-test.benchtime=1x", "-test.timeout=20m")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	cmd.Stdout = os.Stdout
	expect.NoError(b, cmd.Run())
}

const ground = `
apiVersion: v1
kind: Namespace
metadata: {name: purelb-system}
---
apiVersion: v1
kind: Secret
metadata: {name: purelb-gossip, namespace: purelb-system}
stringData: {key: MDEyMzQ1Njc4OWFiY2RlZg==}
---
apiVersion: purelb.io/v2
kind: LBNodeAgent
metadata: {name: default, namespace: purelb-system}
spec: {local: {localInterface: default}}
---
apiVersion: purelb.io/v2
kind: ServiceGroup
metadata: {name: default, namespace: purelb-system}
spec: {remote: {v4pool: {subnet: 10.64.0.0/16, pool: 10.64.0.0/16, aggregation: /32}}}
`

// idleWorld is an API server with many Services, and three agents.
type idleWorld struct {
	*testing.B
	server *apitest.Server
	agent  *exec.Cmd
}

func newIdleWorld(b *testing.B) *idleWorld {
	b.Helper()
	for _, line := range []string{"link set lo up", "link add eth0 type bridge", "link set eth0 up", "addr add 192.0.2.1/24 dev eth0", "route add default via 192.0.2.254"} {
		if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
			b.Fatalf("ip %s: %v\n%s", line, err, out)
		}
	}
	w := &idleWorld{B: b, server: apitest.Start(b)}
	w.apply(ground)
	w.serve()
	for i := 3; i > 0; i-- {
		w.agent = w.start(i)
	}
	return w
}

func (w *idleWorld) apply(objects string) {
	w.Helper()
	if out, err := w.server.Kubectl(objects, "apply", "-f", "-"); err != nil {
		w.Fatal(err, out)
	}
}

// start starts the agent of a node.
func (w *idleWorld) start(i int) *exec.Cmd {
	w.Helper()
	node := fmt.Sprintf("node-%d", i)
	w.apply("apiVersion: v1\nkind: Node\nmetadata: {name: " + node + "}\n")
	cmd := child(w.B, "agent", "--namespace=purelb-system", "--kubeconfig="+w.server.Kubeconfig, "--node-name="+node,
		"--host=127.0.0.1", "--kube-proxy-health=none", fmt.Sprintf("--port=%d", 7470+i), fmt.Sprintf("--gossip-address=127.0.0.%d", i))
	expect.NoError(w, cmd.Start())
	w.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it says that it was killed
	})
	return cmd
}

// serve makes the Services, with the addresses that an allocator would give them.
func (w *idleWorld) serve() {
	w.Helper()
	ctx := context.Background()
	clients, err := kubernetes.NewForConfig(w.server.Config)
	expect.NoError(w, err)
	services := clients.CoreV1().Services("default")
	svc, err := services.Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "bulk-00000"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, ClusterIP: "10.96.128.0", AllocateLoadBalancerNodePorts: new(bool), Ports: []corev1.ServicePort{{Port: 80}},
		},
	}, metav1.CreateOptions{})
	expect.NoError(w, err)
	first := netip.MustParseAddr("10.64.0.1")
	patch, err := service.Result{
		Addresses: []netip.Addr{first}, Origin: service.Origin{From: "default", PoolType: service.PoolRemote},
		Allocated: true, Reason: "Allocated", Message: "Assigned " + first.String() + " from pool default",
	}.Patch(svc, time.Now())
	expect.NoError(w, err)
	if svc, err = services.Patch(ctx, svc.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		w.Fatal(err)
	}
	expect.NoError(w, w.server.Store(copies(svc, first)))
}

// copies are further Services like svc, which has the address first.
func copies(svc *corev1.Service, first netip.Addr) []apitest.Stored {
	var all []apitest.Stored
	cluster := netip.MustParseAddr(svc.Spec.ClusterIP)
	for i := uint64(1); i < bulk; i++ {
		one, ip := svc.DeepCopy(), after(cluster, i)
		one.Name, one.UID, one.ResourceVersion = fmt.Sprintf("bulk-%05d", i), uuid.NewUUID(), ""
		one.Spec.ClusterIP, one.Spec.ClusterIPs = ip, []string{ip}
		one.Status.LoadBalancer.Ingress[0].IP = after(first, i)
		one.Annotations[service.AnnotationAllocatedAddresses] = after(first, i)
		for c := range one.Status.Conditions { // one of them is the record of the address
			one.Status.Conditions[c].Message = strings.ReplaceAll(one.Status.Conditions[c].Message, first.String(), after(first, i))
		}
		all = append(all, apitest.Stored{Key: "services/specs/default/" + one.Name, Object: one})
	}
	return all
}

func after(first netip.Addr, i uint64) string {
	for range i {
		first = first.Next()
	}
	return first.String()
}

// measure prints what the agent costs.
func (w *idleWorld) measure() {
	w.Helper()
	w.until("every address is there", func() bool {
		out, _ := exec.Command("ip", "-o", "addr", "show", "dev", "kube-lb0").Output() // there is no such link at first
		return strings.Count(string(out), "inet 10.64.") == bulk
	})
	w.until("every event is written", w.noMoreEvents())
	ticker := child(w.B, "ticker")
	expect.NoError(w, ticker.Start())
	defer func() {
		_ = ticker.Process.Kill()
		_ = ticker.Wait()
	}()
	time.Sleep(quiet)
	began, before, floorBefore := time.Now(), w.usage(w.agent), w.usage(ticker)
	time.Sleep(watched)
	took, cost, floor := time.Since(began).Seconds(), w.usage(w.agent).minus(before), w.usage(ticker).minus(floorBefore)
	w.Logf("the ticker: %.2f %%, %.0f wake-ups a second", 100*floor.cpu/took, floor.wakeups/took)
	w.result("agent_rss_10k_mb", w.memory(w.agent), "MB", mostMemory)
	w.result("agent_idle_cpu_percent", 100*cost.cpu/took, "%", mostIdle)
	w.result("agent_idle_wakeups_per_second", cost.wakeups/took, "1/s", 0)
	w.result("agent_idle_cpu_vs_ticker", cost.perWakeup()/floor.perWakeup(), "x", 0)
}

// noMoreEvents returns a function that reports whether the number of events is the same as at
// the last call and is not zero.
func (w *idleWorld) noMoreEvents() func() bool {
	w.Helper()
	clients, err := kubernetes.NewForConfig(w.server.Config)
	expect.NoError(w, err)
	var before int64
	return func() bool {
		some, err := clients.CoreV1().Events("").List(context.Background(), metav1.ListOptions{Limit: 1})
		if err != nil || some.RemainingItemCount == nil {
			return false
		}
		last := before
		before = *some.RemainingItemCount
		return before == last
	}
}

// result prints a measurement, and says so if it is more than most (0: anything).
func (w *idleWorld) result(name string, value float64, unit string, most float64) {
	fmt.Printf("RESULT %s %.2f %s\n", name, value, unit)
	if most > 0 && value > most {
		w.Errorf("%s is %.2f; at most %.1f is wanted", name, value, most)
	}
}

func (w *idleWorld) until(what string, is func() bool) {
	w.Helper()
	for deadline := time.Now().Add(10 * time.Minute); !is(); time.Sleep(time.Second) {
		if time.Now().After(deadline) {
			w.Fatalf("not within 10 minutes: %s", what)
		}
	}
}
