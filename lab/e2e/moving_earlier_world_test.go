package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"purelb.io/purelb/lab/internal/topology"
	"purelb.io/purelb/lab/product"
)

// agent017 plays the agent of PureLB 0.17 on a node. It has a Lease, local addresses that last 300 s, and
// remote addresses on kube-lb0. Nothing of it has a mark.
type agent017 struct {
	*world
	node          topology.Machine
	local, remote []netip.Addr
	stop          func()
}

// instance017 is what a Lease has as the UID of the pod of such an agent.
const instance017 = "earlier"

// agent017 starts an agent of 0.17. It renews its Lease every 5 s, until end.
func (w *world) agent017(node topology.Machine, local, remote []netip.Addr) *agent017 {
	w.t.Helper()
	o := &agent017{world: w, node: node, local: local, remote: remote}
	nic := node.NICs[0]
	w.apply(fmt.Sprintf(`
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata:
  name: purelb-node-%s
  namespace: %s
  labels: {app.kubernetes.io/component: lbnodeagent, app.kubernetes.io/name: purelb}
  annotations: {purelb.io/subnets: "%s,%s", purelb.io/instance: %s}
spec: {holderIdentity: %[1]s, leaseDurationSeconds: 10, renewTime: "%[6]s"}
`, node.Name, product.Namespace, nic.V4.Masked(), nic.V6.Masked(), instance017, time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")))
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for ticks := time.Tick(5 * time.Second); ; {
			select {
			case <-done:
				return
			case <-ticks:
				o.renew()
			}
		}
	}()
	o.stop = w.undoable(func() { close(done); <-ended })
	lines := []string{"ip link show kube-lb0 2>/dev/null || ip link add kube-lb0 type ifb; ip link set kube-lb0 up"}
	for _, a := range local {
		preferred := 300
		if a.Is6() {
			preferred = 0
		}
		lines = append(lines, fmt.Sprintf("ip address add %s dev %s valid_lft 300 preferred_lft %d noprefixroute", o.masked(a), nic.Name, preferred))
	}
	for _, a := range remote {
		lines = append(lines, fmt.Sprintf("ip address add %s dev kube-lb0", host(a)))
	}
	o.exec(o.node.Name, strings.Join(lines, "\n"))
	return o
}

// masked returns a local address with the mask of its network.
func (o *agent017) masked(a netip.Addr) netip.Prefix {
	if a.Is4() {
		return netip.PrefixFrom(a, o.node.NICs[0].V4.Bits())
	}
	return netip.PrefixFrom(a, o.node.NICs[0].V6.Bits())
}

func (o *agent017) lease() (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	return lease, o.Get(o.ctx, client.ObjectKey{Namespace: product.Namespace, Name: "purelb-node-" + o.node.Name}, lease)
}

// renew writes the time, the networks and the instance, and leaves the rest of the Lease as it is.
func (o *agent017) renew() {
	lease, err := o.lease()
	if err != nil {
		return
	}
	nic := o.node.NICs[0]
	lease.Annotations["purelb.io/subnets"] = nic.V4.Masked().String() + "," + nic.V6.Masked().String()
	lease.Annotations["purelb.io/instance"] = instance017
	lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
	_ = o.Update(o.ctx, lease) // it tries again in 5 s
}

// end is what the agent does at SIGTERM. It deletes its Lease, removes its addresses from all interfaces, and
// deletes kube-lb0.
func (o *agent017) end() {
	o.t.Helper()
	o.stop()
	if lease, err := o.lease(); err == nil && lease.Annotations["purelb.io/instance"] == instance017 {
		if err := o.Delete(o.ctx, lease, client.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion}); err != nil {
			o.t.Logf("the agent of 0.17 did not delete its Lease: %v", err)
		}
	}
	var lines []string
	for _, a := range o.local {
		lines = append(lines, fmt.Sprintf("ip address del %s dev %s", o.masked(a), o.node.NICs[0].Name))
	}
	o.exec(o.node.Name, strings.Join(append(lines, "ip link del kube-lb0"), "\n"))
}

// playedPods are the pods of the DaemonSet while the test plays the agents of 0.17. They have no k8gobgp, the port
// of metrics, and a program that ends at SIGTERM. While the DaemonSet gets them, it need not wait for each node.
const playedPods = `[
{"op": "replace", "path": "/spec/updateStrategy/rollingUpdate", "value": {"maxUnavailable": "100%"}},
{"op": "add", "path": "/spec/template/spec/initContainers", "value": []},
{"op": "replace", "path": "/spec/template/spec/containers", "value": [{"name": "lbnodeagent", "image": "docker.io/lab/echo:1",
  "imagePullPolicy": "IfNotPresent", "ports": [{"name": "monitoring", "containerPort": 7472}]}]}
]`

// playAgents017 replaces the agents of this PureLB by pods without an agent. The test has to play the agents.
func (w *world) playAgents017() {
	w.t.Helper()
	w.t.Cleanup(func() {
		if err := lab.restore(); err != nil {
			w.t.Error(err)
		}
		w.sessions()
	})
	kubectl(w, "--namespace", product.Namespace, "patch", "daemonset", "lbnodeagent", "--type=json", "--patch", playedPods)
	w.until(3*patience, "all pods of the agents are played", func() bool {
		pods := w.agentPods()
		return len(pods) == len(lab.Nodes()) && !slices.ContainsFunc(pods, func(p corev1.Pod) bool { return len(p.Spec.InitContainers) > 0 || !ready(p) })
	})
	kubectl(w, "--namespace", product.Namespace, "delete", "leases", "--selector=app.kubernetes.io/component=lbnodeagent")
}

func (w *world) agentPods() []corev1.Pod {
	w.t.Helper()
	pods, err := w.Pods(w.ctx, product.Namespace, client.MatchingLabels{"component": "lbnodeagent"})
	if err != nil {
		w.t.Error(err)
	}
	return pods
}

// endWithPods makes each agent of 0.17 end when Kubernetes ends its pod. wait returns when all have ended.
func (w *world) endWithPods(old []*agent017) (wait func()) {
	w.t.Helper()
	runs := map[types.UID]*agent017{}
	for _, p := range w.agentPods() {
		for _, o := range old {
			if o.node.Name == p.Spec.NodeName {
				runs[p.UID] = o
			}
		}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for len(runs) > 0 {
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond): // the interval of the measurement
			}
			alive := map[types.UID]bool{}
			for _, p := range w.agentPods() {
				alive[p.UID] = p.DeletionTimestamp == nil
			}
			for uid, o := range runs {
				if !alive[uid] {
					delete(runs, uid)
					o.end()
				}
			}
		}
	}()
	stop := w.undoable(func() { close(done); <-ended })
	return func() {
		w.t.Helper()
		w.until(patience, "all agents of 0.17 have ended", func() bool {
			select {
			case <-ended:
				return true
			default:
				return false
			}
		})
		stop()
	}
}
