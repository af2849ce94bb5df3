package e2e

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Promise: after any failure, one node answers for an address. No node answers only while the next
// node makes sure that the last one is gone. Each scene has its allowed loss.

func TestAnAPIServerOutageLosesNothing(t *testing.T) {
	away, err := time.ParseDuration(cmp.Or(os.Getenv("OUTAGE"), "35s"))
	if err != nil {
		t.Fatal(err)
	}
	w := newWorldFor(t, away)
	s := watchLocal(w)
	holder := s.holder()
	s.begin()
	heal := w.undoable(func() {
		w.restartKubernetes()
		w.freshAllocator() // the old one ended when it could not renew its Lease
	})
	start := w.stopAPI()
	time.Sleep(away) // in this time, the agents refresh the addresses at least once
	start()
	w.agentReady(holder)
	s.rest(patience)
	s.end(nothing)
	s.stays(holder)
	if err := w.Delete(w.ctx, w.service("web")); err != nil {
		t.Fatal(err)
	}
	for _, a := range s.addresses {
		w.until(25*time.Second, a.String()+" is gone, so the agents have a connection to the API server again", func() bool {
			return len(w.holders(a)) == 0
		})
	}
	heal()
}

func TestANodeThatOnlyClientsReachKeepsItsAddresses(t *testing.T) {
	w := newWorld(t)
	s := watchLocal(w)
	holder := s.holder()
	s.begin()
	heal := cutOff(w, holder)
	time.Sleep(10 * time.Second) // the duration of a Lease
	heal()
	w.agentReady(holder)
	s.rest(patience)
	s.end(nothing)
	s.stays(holder)
}

func TestACrashLoopingAgentLosesItsAddressOnceAtMost(t *testing.T) {
	w := newWorld(t)
	s := watchLocal(w)
	holder := s.holder()
	s.begin()
	before := w.restarts(holder)
	spare := strike(w, holder)
	w.until(3*patience, "the agent has been started again three times", func() bool { return w.restarts(holder)-before >= 3 })
	s.rest(patience)
	spare()
	s.rest(patience)
	s.movedOnce()
	// The agent refreshes its addresses if it lives for half a second. Otherwise they expire after a
	// minute.
	s.end(expiryLoss)
	s.holder()
}

func TestTheAddressesOfAHangingAgentMove(t *testing.T) {
	w := newWorldFor(t, time.Minute)
	s := watchLocal(w)
	holder := s.holder()
	s.begin()
	thaw := freeze(w, holder)
	// The kernel answers until the addresses expire. That is a minute after their last refresh.
	for _, a := range s.addresses {
		w.until(2*patience, a.String()+" expires", func() bool { return !slices.Contains(w.holderNodes(a), holder) })
	}
	s.elsewhere(holder)
	s.rest(patience)
	thaw()
	w.agentReady(holder)
	s.rest(patience)
	s.movedOnce()
	s.end(expiryLoss)
	s.elsewhere(holder) // the former holder knows at once that another node has the addresses
}

// movedOnce fails the test if an address came back to a node that it had left.
func (s *watched) movedOnce() {
	s.t.Helper()
	for _, a := range s.addresses {
		if story := s.station.Story(a, s.began); story.Returns() > 0 {
			s.t.Errorf("%s came back to a node that it had left:\n%s", a, story)
		}
	}
}

func TestAnEvictedAgentHandsOver(t *testing.T) {
	w := newWorld(t)
	s := watchLocal(w)
	holder := s.holder()
	s.begin()
	w.evict(holder)
	s.elsewhere(holder)
	w.agentReady(holder)
	s.rest(patience)
	s.movedOnce()
	s.end(convergence)
	s.elsewhere(holder) // the new agent takes nothing back

	holder = s.holder()
	s.begin()
	untaint := w.taint(holder)
	s.elsewhere(holder)
	s.rest(patience)
	untaint()
	w.agentReady(holder)
	s.rest(patience)
	s.movedOnce()
	s.end(convergence)
	s.elsewhere(holder)
}

// taint evicts the pods of a node that do not tolerate the taint.
func (w *world) taint(node string) (untaint func()) {
	w.t.Helper()
	const taint = "e2e=leave:NoExecute"
	kubectl(w, "taint", "node", node, taint)
	return w.undoable(func() { kubectl(w, "taint", "node", node, taint+"-") })
}

func TestAnAddressThatPrefersEndpointsFollowsThem(t *testing.T) {
	w := newWorld(t)
	s := watchService(w, annotated(service("web", "local"), "purelb.io/node-affinity: service-endpoints"))
	s.begin()
	node := other(t, s.holder())
	w.apply(server("near", node))
	for _, a := range s.addresses {
		w.until(patience, a.String()+" is on the node with an endpoint", func() bool {
			return equal(w.holderNodes(a), []string{node})
		})
	}
	s.rest(patience)
	s.movedOnce()
	s.end(convergence)

	s.beginStation()
	w.remove(server("near", node))
	w.until(patience, "the endpoint is gone", func() bool { return !slices.Contains(w.podNodes("web"), node) })
	s.rest(patience)
	for _, a := range s.addresses {
		s.judge(a, s.station.Story(a, s.began), nothing)
	}
	s.stays(node) // no node of the segment has an endpoint, so no node is better
}

func TestALocalAddressWithTrafficPolicyLocalFollowsEndpoints(t *testing.T) {
	w := newWorld(t)
	w.apply(server("near-1", "node-1"))
	s := watchService(w, annotated(service("web", "local", "externalTrafficPolicy: Local"), `purelb.io/allow-local: "true"`))
	if p := w.service("web").Spec.ExternalTrafficPolicy; p != "Local" {
		t.Fatalf("externalTrafficPolicy is %s, want Local", p)
	}
	on := func(nodes ...string) {
		t.Helper()
		for _, a := range s.addresses {
			w.until(patience, fmt.Sprintf("%s is on %v", a, nodes), func() bool { return equal(w.holderNodes(a), nodes) })
		}
	}
	on("node-1")
	s.begin()
	w.apply(server("near-2", "node-2"))
	w.until(patience, "there are two endpoints", func() bool { return w.served() == 4 })
	on("node-1")
	w.remove(server("near-1", "node-1"))
	on("node-2")
	s.rest(patience)
	// A terminating server still serves for four seconds. The address moves after two seconds, when
	// kube-proxy knows the other server.
	s.end(convergence)

	w.remove(server("near-2", "node-2"))
	on()
	w.until(patience, "the first server has ended, and its name is free", func() bool {
		return !slices.ContainsFunc(w.pods("web"), func(p corev1.Pod) bool { return p.Name == "near-1" })
	})
	w.apply(server("near-1", "node-1"))
	on("node-1")
	w.answers(s.addresses...)
}

// served returns the number of ready pods of web.
func (w *world) served() (n int) {
	for _, p := range w.pods("web") {
		if ready(p) {
			n++
		}
	}
	return n
}
