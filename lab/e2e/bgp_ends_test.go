package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"purelb.io/purelb/lab/probe"
	"purelb.io/purelb/lab/product"
)

// Promise: routers leave a node before an orderly end of the node. They do so although
// graceful restart makes them keep its routes when its speaker merely restarts.

// withdrawn is how long routers may send to a node that was told to end. With graceful restart
// they would send for a minute.
const withdrawn = 20 * time.Second

// mostLost is how much of the clients' traffic an orderly end may cost, in percent.
const mostLost = 0.1

// flows is the number of sockets that ask each address at once. The router spreads them over
// the nodes.
const flows = 8

// spray asks addresses from many sockets, each of them every 10 ms.
type spray struct {
	*world
	probes []*probe.Probe
}

func (w *world) spray(addresses []netip.Addr) *spray {
	w.t.Helper()
	s := &spray{world: w}
	for _, a := range addresses {
		for range flows {
			p, err := probe.Start(w.ctx, lab.Netns("client"), netip.AddrPortFrom(a, 82), 10*time.Millisecond)
			if err != nil {
				w.t.Fatal(err)
			}
			s.probes = append(s.probes, p)
		}
	}
	w.until(patience, "the probes are under way", func() bool {
		return !slices.ContainsFunc(s.probes, func(p *probe.Probe) bool { return p.Sent() < 100 })
	})
	return s
}

// lost returns how many datagrams were not answered, and how many were sent.
func (s *spray) lost() (lost, sent int) {
	s.t.Helper()
	for _, p := range s.probes {
		r := p.Stop()
		lost, sent = lost+r.Lost(), sent+r.Sent
		if r.Lost() > 0 {
			s.t.Logf("a client lost datagrams: %s", r)
		}
	}
	return lost, sent
}

// complain fails the test if an end cost more than it may.
func (s *spray) complain(what string) {
	s.t.Helper()
	if lost, sent := s.lost(); percent(lost, sent) > mostLost {
		s.t.Errorf("%s: %d of %d datagrams were not answered", what, lost, sent)
	}
}

func percent(part, all int) float64 { return 100 * float64(part) / float64(all) }

// leave waits until the router sends none of the addresses to the node. It fails the test if
// that took too long after the node was told to end.
func (f followed) leave(node string, told time.Time, addresses []netip.Addr) {
	f.t.Helper()
	for _, a := range addresses {
		var at time.Time
		f.until(patience, fmt.Sprintf("the router does not send %s to %s", a, node), func() (gone bool) {
			at, gone = f.without(a, hop(f.world, node, a))
			return gone
		})
		f.t.Logf("the router sent %s to %s for %s", a, node, at.Sub(told))
		if at.Sub(told) > withdrawn {
			f.t.Errorf("the router sent %s to %s for %s after it was told to end", a, node, at.Sub(told))
		}
	}
}

// goesOff cuts the power of a node that has been shut down. It boots the node after it has
// checked that nothing was lost.
func (s *spray) goesOff(node string, addresses []netip.Addr) {
	s.t.Helper()
	s.crash(node)
	time.Sleep(3 * time.Second) // a router that still sends to the node would lose probes now
	s.complain("shut down and off")
	lab.boot(s.t, node)
	s.agentReady(node)
	s.everywhere(addresses...)
}

func TestRoutersLeaveANodeThatIsRebooted(t *testing.T) {
	w := newWorld(t)
	w.sessions()
	addresses := w.remote()
	f, s := w.followRoutes(), w.spray(addresses)
	w.endPrograms("node-3")
	f.leave("node-3", time.Now(), addresses)
	s.goesOff("node-3", addresses)
}

func TestRoutersLeaveANodeWhoseKubeletShutsItDown(t *testing.T) {
	w := newWorld(t)
	w.sessions()
	addresses := w.remote()
	f, s := w.followRoutes(), w.spray(addresses)
	told := time.Now()
	w.endPods("node-3", 500*time.Millisecond)
	f.leave("node-3", told, addresses)
	s.goesOff("node-3", addresses)
}

// kubectl drain does not evict DaemonSets, and so the routes stay.
func TestRoutersLeaveADrainedNodeWhenItIsShutDown(t *testing.T) {
	w := newWorld(t)
	w.sessions()
	addresses := w.remote()
	uncordon := w.undoable(func() { kubectl(w, "uncordon", "node-3") })
	f, s := w.followRoutes(), w.spray(addresses)
	kubectl(w, "drain", "node-3", "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=2m")
	time.Sleep(3 * time.Second) // a late loss counts too
	f.nothing(addresses...)
	w.endPrograms("node-3")
	f.leave("node-3", time.Now(), addresses)
	s.goesOff("node-3", addresses)
	uncordon()
}

func TestRoutersLeaveANodeFromWhichTheSpeakerIsEvicted(t *testing.T) {
	w := newWorld(t)
	w.sessions()
	addresses := w.remote()
	f, s := w.followRoutes(), w.spray(addresses)
	told := time.Now()
	untaint := w.taint("node-3")
	f.leave("node-3", told, addresses)
	time.Sleep(3 * time.Second) // a late loss counts too
	s.complain("evicted by a taint")
	untaint()
	w.agentReady("node-3")
	w.everywhere(addresses...)
}

func TestRoutersLeaveANodeThatIsDeleted(t *testing.T) {
	w := newWorld(t)
	w.expect("departureNotKnown", "nodeStatusNotWritten", "leaseNotRenewed", "nodeMissing", "departed", "eventNotWritten", "annotationNotWritten")
	w.sessions()
	addresses := w.remote()
	var node corev1.Node
	if err := w.Get(w.ctx, client.ObjectKey{Name: "node-3"}, &node); err != nil {
		t.Fatal(err)
	}
	agent := w.readyPod("lbnodeagent", node.Name)
	f, s := w.followRoutes(), w.spray(addresses)
	restore := w.undoable(func() { w.register(node) })
	if err := w.Delete(w.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}); err != nil {
		t.Fatal(err)
	}
	told := time.Now()
	kubectl(w, "delete", "pod", agent.Name, "--namespace", agent.Namespace, "--force", "--grace-period=0")
	f.leave(node.Name, told, addresses)
	time.Sleep(3 * time.Second) // a late loss counts too
	s.complain("the Node is deleted")
	restore()
	w.agentReady(node.Name)
	w.everywhere(addresses...)
}

// BenchmarkBGPReboot measures what clients of remote addresses lose in the minute in which a
// node is rebooted. Its programs are told to end, and its power goes 20 s later.
func BenchmarkBGPReboot(b *testing.B) {
	w := newWorldFor(b, time.Hour)
	w.sessions()
	addresses := w.remote()
	for b.Loop() {
		var worst float64
		for _, node := range nodeNames()[1:] { // the first node has the server
			s, began := w.spray(addresses), time.Now()
			w.endPrograms(node)
			time.Sleep(unmounting)
			w.crash(node)
			time.Sleep(time.Minute - time.Since(began))
			lost, sent := s.lost()
			b.Logf("reboot of %s: %d of %d lost", node, lost, sent)
			worst = max(worst, percent(lost, sent))
			lab.boot(b, node)
			w.agentReady(node)
			w.everywhere(addresses...)
		}
		fmt.Printf("RESULT bgp_reboot_lost_percent %.3f %%\n", worst)
	}
}

// BenchmarkBGPRollout measures what clients of remote addresses lose while all agents and
// speakers are replaced.
func BenchmarkBGPRollout(b *testing.B) {
	w := newWorldFor(b, time.Hour)
	w.sessions()
	addresses := w.remote()
	for b.Loop() {
		s, had := w.spray(addresses), w.told()
		kubectl(w, "rollout", "restart", "daemonset/lbnodeagent", "--namespace", product.Namespace)
		kubectl(w, "rollout", "status", "daemonset/lbnodeagent", "--namespace", product.Namespace, "--timeout=5m")
		for _, n := range slices.Sorted(slices.Values(nodeNames())) {
			w.again(n, had[n])
		}
		lost, sent := s.lost()
		b.Logf("rollout: %d of %d lost", lost, sent)
		fmt.Printf("RESULT bgp_rollout_lost %d datagrams\n", lost)
	}
}
