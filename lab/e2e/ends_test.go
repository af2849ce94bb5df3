package e2e

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"purelb.io/purelb/lab/kube"
	"purelb.io/purelb/lab/product"
)

// Promise: an orderly end costs less than a power cut. Addresses leave a node before its end. They
// move once. Nothing remains on the node.

// systemd ends the kubelet and the containers together. No pod is deleted, and the node stays ready
// in the API server.
func TestARebootHandsOverBeforeThePowerGoes(t *testing.T) {
	w := newWorld(t)
	s := watchLocal(w)
	holder := s.holder()
	s.begin()
	w.endPrograms(holder)
	time.Sleep(unmounting)
	s.elsewhere(holder)
	s.powerOffAfterShutdown(holder, convergence)
}

// powerOffAfterShutdown cuts the power of a node that has been shut down. It fails the test if the
// end cost more than may. Then it boots the node.
func (s *watched) powerOffAfterShutdown(node string, may loss) {
	s.t.Helper()
	s.crash(node)
	s.elsewhere(node)
	s.rest(patience)
	s.movedOnce()
	s.end(may)
	lab.boot(s.t, node)
	s.agentReady(node)
	s.elsewhere(node) // a node that returns takes no address
}

// The kubelet ends pods and writes at the same time that the node shuts down. The order of the
// two differs from run to run.
func TestAGracefulShutdownHandsOver(t *testing.T) {
	for _, late := range []time.Duration{0, 100 * time.Millisecond, 500 * time.Millisecond} {
		t.Run("the message comes after "+late.String(), func(t *testing.T) {
			w := newWorld(t)
			s := watchLocal(w)
			holder := s.holder()
			s.begin()
			w.endPods(holder, late)
			s.elsewhere(holder)
			s.powerOffAfterShutdown(holder, convergence)
		})
	}
}

// kubectl drain cordons the node. It does not evict DaemonSets, so the addresses stay. An agent that
// gets SIGTERM on a cordoned node assumes a reboot.
func TestADrainedNodeHandsOverWhenItIsShutDown(t *testing.T) {
	w := newWorld(t)
	s := watchLocal(w)
	holder := s.holder()
	uncordon := w.undoable(func() { kubectl(w, "uncordon", holder) })
	s.begin()
	kubectl(w, "drain", holder, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=2m")
	s.rest(patience)
	s.end(nothing)
	s.stays(holder)

	s.begin()
	w.endPrograms(holder)
	s.elsewhere(holder)
	s.powerOffAfterShutdown(holder, convergence)
	uncordon()
}

// Kubernetes force-deletes the pods of a deleted Node a minute later. Here the test does that at
// once. The token of the agent becomes invalid with its pod, but the agent has seen the deletion of
// the Node. It hands over its addresses with the Node that it saw last. So two nodes may answer for
// a moment.
func TestADeletedNodeHandsOverAtOnce(t *testing.T) {
	w := newWorld(t)
	w.expect("departureNotKnown", "nodeStatusNotWritten", "leaseNotRenewed", "nodeMissing", "departed", "eventNotWritten", "annotationNotWritten")
	s := watchLocal(w)
	holder := s.holder()
	var node corev1.Node
	if err := w.Get(w.ctx, client.ObjectKey{Name: holder}, &node); err != nil {
		t.Fatal(err)
	}
	agent := w.readyPod("lbnodeagent", holder)
	s.begin()
	restore := w.undoable(func() { w.register(node) })
	if err := w.Delete(w.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: holder}}); err != nil {
		t.Fatal(err)
	}
	kubectl(w, "delete", "pod", agent.Name, "--namespace", agent.Namespace, "--force", "--grace-period=0")
	s.until(10*time.Second, "the address has left "+holder+" before its lifetime ends", func() bool {
		return !slices.ContainsFunc(s.addresses, func(a netip.Addr) bool { return slices.Contains(s.holderNodes(a), holder) })
	})
	s.elsewhere(holder)
	s.rest(patience)
	s.movedOnce()
	s.end(loss{probes: 100, silence: time.Second, twofold: convergence.twofold, cut: true})
	restore()
	w.agentReady(holder)
	s.elsewhere(holder)
}

// register creates the Node of a kubelet again after its deletion. The kubelet then uses the new
// Node.
func (w *world) register(node corev1.Node) {
	w.t.Helper()
	node.ResourceVersion, node.UID = "", ""
	if err := w.Create(w.ctx, &node); err != nil {
		w.t.Errorf("register %s: %v", node.Name, err)
	}
	if !w.runs(node.Name, "kube-proxy") { // kube-proxy ends when its Node is deleted
		w.restartProgram(node.Name, "kube-proxy")
	}
}

// left waits until a node carries none of the addresses, and the router does not send their packets
// to the node.
func (w *world) left(node string, addresses []netip.Addr) {
	w.t.Helper()
	for _, a := range addresses {
		w.until(patience, a.String()+" has left "+node, func() bool {
			return !slices.Contains(w.holderNodes(a), node) && !slices.Contains(w.nextHops(host(a)), node)
		})
	}
}

// An uninstall leaves nothing behind. When PureLB is installed again, Services get their
// addresses back.
func TestAnUninstallLeavesNothingBehind(t *testing.T) {
	w := newWorld(t)
	// The rights are removed too, and the last agent has no peer for its handover.
	w.expect(uninstalling...)
	s := watchLocal(w)
	w.apply(service("far", "remote"))
	remote := w.addresses("far", families())
	install := func() {
		if err := lab.install(); err != nil {
			t.Fatal(err)
		}
	}
	for _, end := range []struct {
		name string
		end  func()
	}{
		{"kubectl delete daemonset", func() {
			kubectl(w, "delete", "daemonset", "lbnodeagent", "--namespace", product.Namespace)
		}},
		{"helm uninstall", func() {
			if err := lab.tree.Helm(w.ctx, "uninstall", product.Release, "--kubeconfig", lab.Kubeconfig(), "--namespace", product.Namespace); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Log(end.name)
		w.everywhere(remote...)
		s.beginStation()
		reinstall := w.undoable(install)
		end.end()
		for _, node := range lab.powered() {
			w.left(node, append(remote, s.addresses...))
			w.until(patience, "the table has left "+node, func() bool { return !w.guarded(node) })
		}
		for _, a := range s.addresses {
			if twofold := s.station.Story(a, s.began).Twofold(); twofold > convergence.twofold {
				t.Errorf("%s: two machines answered for %s during %s", end.name, a, twofold)
			}
		}
		reinstall()
		s.rest(patience)
		if now := kube.Addresses(w.service("web")); !slices.Equal(now, s.addresses) {
			t.Errorf("%s: a Service had %v and has %v", end.name, s.addresses, now)
		}
		w.answers(s.addresses...)
	}
}
