package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"purelb.io/purelb/lab/cluster"
	"purelb.io/purelb/lab/internal/wire"
	"purelb.io/purelb/lab/product"
)

// undoable returns a function that runs undo once: when the test calls it, or at the end of the test.
func (w *world) undoable(undo func()) func() {
	var once sync.Once // OnceFunc panics if a test ends in undo
	first := func() { once.Do(undo) }
	w.t.Cleanup(first)
	return first
}

// crash cuts the power of a node. It unplugs its cable first.
func (w *world) crash(node string) {
	w.t.Helper()
	w.expect("configProblem")
	if err := lab.Crash(node); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { // after a failed test, the other tests need the node
		if !lab.Running(node) {
			lab.boot(w.t, node)
		}
	})
}

// signalAPI sends the API server a signal.
func (w *world) signalAPI(sig syscall.Signal) {
	w.t.Helper()
	w.expect(withoutAPI...)
	if err := lab.Signal(cluster.ControlPlane, "kube-apiserver", sig); err != nil {
		w.t.Errorf("signal the API server: %v", err)
	}
}

// hang makes the API server accept connections and never answer.
func (w *world) hang() (resume func()) {
	w.t.Helper()
	w.signalAPI(syscall.SIGSTOP)
	return w.undoable(func() { w.signalAPI(syscall.SIGCONT) })
}

// stopAPI ends the API server.
func (w *world) stopAPI() (start func()) {
	w.t.Helper()
	w.signalAPI(syscall.SIGKILL)
	return w.undoable(func() {
		if err := lab.Start(w.ctx, cluster.ControlPlane, "kube-apiserver"); err != nil {
			w.t.Errorf("start the API server: %v", err)
		}
	})
}

// restartKubernetes restarts the other programs of Kubernetes that use the API server. After an
// outage of half a minute, they wait for up to a minute before the next request for each kind of
// object. The next test would have to wait for all of them.
func (w *world) restartKubernetes() {
	w.t.Helper()
	began := time.Now()
	programs := map[string][]string{cluster.ControlPlane: {"kube-controller-manager", "kube-scheduler"}}
	for _, n := range lab.Nodes() {
		programs[n.Name] = []string{"kubelet", "kube-proxy"}
	}
	for machine, names := range programs {
		for _, name := range names {
			w.restartProgram(machine, name)
		}
	}
	for _, n := range lab.Nodes() {
		w.until(2*patience, "the kubelet of "+n.Name+" renews its Lease", func() bool {
			var lease coordinationv1.Lease
			err := w.Get(w.ctx, client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: n.Name}, &lease)
			return err == nil && lease.Spec.RenewTime != nil && lease.Spec.RenewTime.After(began)
		})
	}
	w.until(2*patience, "all nodes are ready", func() bool { return lab.NodesReady(w.ctx) == nil })
	for machine, names := range programs {
		for _, name := range names {
			if !w.runs(machine, name) {
				w.t.Errorf("%s on %s has ended after its restart", name, machine)
			}
		}
	}
}

// restartProgram ends a program if it runs, and starts it again.
func (w *world) restartProgram(machine, program string) {
	w.t.Helper()
	if w.runs(machine, program) {
		if err := lab.Signal(machine, program, syscall.SIGKILL); err != nil {
			w.t.Errorf("end %s on %s: %v", program, machine, err)
		}
		w.until(patience, program+" on "+machine+" has ended", func() bool { return !w.runs(machine, program) })
	}
	if err := lab.Start(w.ctx, machine, program); err != nil {
		w.t.Errorf("start %s on %s: %v", program, machine, err)
	}
}

func (w *world) runs(machine, program string) bool {
	w.t.Helper()
	p, err := lab.Program(machine, program)
	if err != nil {
		w.t.Fatal(err)
	}
	return p.Running
}

// excluded is the label of nodes that no load balancer should use.
const excluded = "node.kubernetes.io/exclude-from-external-load-balancers"

// exclude gives nodes the label excluded.
func (w *world) exclude(nodes ...string) (include func()) {
	w.t.Helper()
	label := func(value string) {
		kubectl(w, slices.Concat([]string{"label", "node"}, nodes, []string{excluded + value})...)
	}
	label("=true")
	return w.undoable(func() { label("-") })
}

// rollOutAgents begins to replace all agents, one after the other. The function that it returns waits for the end.
func (w *world) rollOutAgents() (wait func()) {
	w.t.Helper()
	kubectl(w, "rollout", "restart", "daemonset/lbnodeagent", "--namespace", product.Namespace)
	return func() {
		w.t.Helper()
		kubectl(w, "rollout", "status", "daemonset/lbnodeagent", "--namespace", product.Namespace, "--timeout=5m")
	}
}

// evict asks the API server to evict the agent of a node, as kubectl drain does for other pods.
func (w *world) evict(node string) {
	w.t.Helper()
	agent := w.readyPod("lbnodeagent", node)
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: agent.Name, Namespace: agent.Namespace}}
	if err := w.SubResource("eviction").Create(w.ctx, &agent, eviction); err != nil {
		w.t.Fatalf("evict %s: %v", agent.Name, err)
	}
}

// rules runs nft on a machine with power.
func (w *world) rules(machine, rules string) {
	w.t.Helper()
	if !lab.Running(machine) {
		return
	}
	if out, err := lab.Exec(w.ctx, machine, "nft", rules); err != nil {
		w.t.Errorf("packet filter of %s: %v %s", machine, err, out)
	}
}

const noRules = "add table inet e2e; delete table inet e2e"

// block drops gossip between the agent of a node and all other agents.
func block(w *world, node string) (unblock func()) {
	w.t.Helper()
	w.rules(node, "add table inet e2e; add chain inet e2e in {type filter hook input priority -300;}; "+
		"add rule inet e2e in udp dport 7934 drop; add rule inet e2e in tcp dport 7934 drop; "+
		"add chain inet e2e out {type filter hook output priority -300;}; "+
		"add rule inet e2e out udp dport 7934 drop; add rule inet e2e out tcp dport 7934 drop")
	return w.undoable(func() { w.rules(node, noRules) })
}

// cutOff drops all packets of a node itself to and from the other nodes and the API server. The node
// still forwards packets of clients, and answers on its segments.
func cutOff(w *world, node string) (heal func()) {
	w.t.Helper()
	w.expect(withoutAPI...)
	v4, v6 := others(node)
	w.rules(node, fmt.Sprintf("add table inet e2e; add chain inet e2e in {type filter hook input priority 0;}; "+
		"add chain inet e2e out {type filter hook output priority 0;}; "+
		"add rule inet e2e in ip saddr {%[1]s} drop; add rule inet e2e out ip daddr {%[1]s} drop; "+
		"add rule inet e2e in ip6 saddr {%[2]s} drop; add rule inet e2e out ip6 daddr {%[2]s} drop", v4, v6))
	return w.undoable(func() { w.rules(node, noRules) })
}

// others returns the addresses of the control plane and of all nodes except one.
func others(node string) (v4, v6 string) {
	var four, six []string
	for _, m := range lab.Machines() {
		if m.Name == node || m.Name == cluster.Router || m.Name == cluster.Client {
			continue
		}
		for _, n := range m.NICs {
			four, six = append(four, n.V4.Addr().String()), append(six, n.V6.Addr().String())
		}
	}
	return strings.Join(four, ", "), strings.Join(six, ", ")
}

// sever separates the machines on the left from the machines on the right. The switch drops their
// packets on a segment, and the router drops their packets between segments.
func sever(w *world, left, right []string) (mend func()) {
	w.t.Helper()
	w.expect("addressConflict") // both sides may hold the address until they hear each other
	w.expect(withoutAPI...)
	l, r := ports(left), ports(right)
	w.switchRules(fmt.Sprintf("add table bridge e2e; add chain bridge e2e cut {type filter hook forward priority 0;}; "+
		"add rule bridge e2e cut iifname {%[1]s} oifname {%[2]s} drop; "+
		"add rule bridge e2e cut iifname {%[2]s} oifname {%[1]s} drop", l, r))
	w.rules(cluster.Router, "add table inet e2e; add chain inet e2e cut {type filter hook forward priority 0;}"+
		between(left, right)+between(right, left))
	return w.undoable(func() {
		w.switchRules("add table bridge e2e; delete table bridge e2e")
		w.rules(cluster.Router, noRules)
	})
}

// between returns rules of the router that drop the packets between two sets of nodes.
func between(from, to []string) (rules string) {
	for _, f := range addressesOf(from) {
		for _, t := range addressesOf(to) {
			if f.Is4() != t.Is4() {
				continue
			}
			family := "ip6"
			if f.Is4() {
				family = "ip"
			}
			rules += fmt.Sprintf("; add rule inet e2e cut %s saddr %s %s daddr %s drop", family, f, family, t)
		}
	}
	return rules
}

// addressesOf returns the addresses of the machines that are nodes.
func addressesOf(machines []string) (all []netip.Addr) {
	for _, name := range machines {
		m, err := lab.Machine(name)
		if err != nil || !m.Node {
			continue
		}
		for _, n := range m.NICs {
			all = append(all, n.V4.Addr(), n.V6.Addr())
		}
	}
	return all
}

// ports returns the ports of the machines on the switch. A machine that the lab does not know has one
// port.
func ports(machines []string) string {
	var all []string
	for _, name := range machines {
		m, err := lab.Machine(name)
		if err != nil {
			all = append(all, fmt.Sprintf("%q", wire.Port(name, "eth0")))
		}
		for _, n := range m.NICs {
			all = append(all, fmt.Sprintf("%q", wire.Port(m.Name, n.Name)))
		}
	}
	return strings.Join(all, ", ")
}

// switchRules runs nft in the switch.
func (w *world) switchRules(rules string) {
	w.t.Helper()
	err := wire.In(lab.Netns(wire.Switch), func() error {
		out, err := exec.CommandContext(w.ctx, "nft", rules).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	if err != nil {
		w.t.Errorf("packet filter of the switch: %v", err)
	}
}

// strike kills the agent on a node as soon as it starts, as the OOM killer does. The kubelet restarts
// it repeatedly, each time after a longer pause.
func strike(w *world, node string) (spare func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.ctx)
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			w.killProcess("lbnodeagent", "PURELB_NODE_NAME="+node)
			time.Sleep(50 * time.Millisecond) // the time between two reads of the processes
		}
	})
	return w.undoable(func() {
		cancel()
		done.Wait()
		w.replaceAgent(node) // the kubelet would restart the old agent only after minutes
	})
}

// freeze stops the agent on a node. It also stops the kubelet, which would restart the agent.
func freeze(w *world, node string) (thaw func()) {
	w.t.Helper()
	pid, ok := processOf("lbnodeagent", "PURELB_NODE_NAME="+node)
	if !ok {
		w.t.Fatalf("no agent runs on %s", node)
	}
	signal := func(sig syscall.Signal) {
		w.t.Helper()
		if err := lab.Signal(node, "kubelet", sig); err != nil {
			w.t.Errorf("signal the kubelet of %s: %v", node, err)
		}
		if err := syscall.Kill(pid, sig); err != nil {
			w.t.Errorf("signal the agent of %s: %v", node, err)
		}
	}
	signal(syscall.SIGSTOP)
	return w.undoable(func() { signal(syscall.SIGCONT) })
}

// replaceAgent replaces the agent's pod on a node, in any state.
func (w *world) replaceAgent(node string) {
	w.t.Helper()
	w.replace("lbnodeagent", node)
}

// restarts returns the number of restarts of the containers of the agent and the speaker on a node.
func (w *world) restarts(node string) (n int32) {
	w.t.Helper()
	for _, p := range w.podsOf("lbnodeagent") {
		if p.Spec.NodeName != node || p.DeletionTimestamp != nil {
			continue
		}
		for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
			n += c.RestartCount
		}
	}
	return n
}
