package e2e

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"purelb.io/purelb/lab/product"
)

// Promise: a node that is off gets no new address. When the pods of all agents are deleted at
// once, an address loses no more than in a handover.

// Agents that have just started know a node that is off only by its Lease. A Lease counts for
// three minutes.
func TestANodeThatIsOffGetsNoNewAddress(t *testing.T) {
	w := newWorld(t)
	if dark := w.unansweredBesideADeadNode(); dark > 0 {
		t.Errorf("%d new addresses were not answered, while a node of their segment was off and all agents were new", dark)
	}
}

// BenchmarkFreshAgents counts the addresses of new Services that nobody answers while a node
// of their segment is off and all agents have just started.
func BenchmarkFreshAgents(b *testing.B) {
	w := newWorld(b)
	for b.Loop() {
		fmt.Printf("RESULT fresh_agents_dead_node_unanswered %d addresses\n", w.unansweredBesideADeadNode())
	}
}

// unansweredBesideADeadNode cuts the power of one of the two nodes of a segment, ends all
// agents and the allocator, and makes eight Services. It returns how many of their addresses
// are not answered by exactly one node within ten seconds.
func (w *world) unansweredBesideADeadNode() (dark int) {
	w.t.Helper()
	s := watchLocal(w)
	off := other(w.t, s.holder())
	w.crash(off)
	kubectl(w, "wait", "--for=condition=Ready=Unknown", "node/"+off, "--timeout=3m")
	w.freshAllocator() // the old one may have run on the victim
	w.killAgents(lab.powered()...)()
	w.leadingPod() // if the victim had the leader, its Lease must expire first

	const services, limit = 8, 10 * time.Second
	began := time.Now()
	for i := range services {
		w.apply(service(fmt.Sprintf("new-%d", i), "local"))
	}
	for i := range services {
		for _, a := range w.addresses(fmt.Sprintf("new-%d", i), families()) {
			if !w.answeredByOne(a, began.Add(limit)) {
				w.t.Logf("%s is on %v, and the client is not answered by it", a, w.holders(a))
				dark++
			}
		}
	}
	w.t.Logf("%d addresses after %s", 2*services-dark, time.Since(began).Round(100*time.Millisecond))
	lab.boot(w.t, off)
	w.agentReady(off)
	return dark
}

// answeredByOne waits until the deadline for one node to carry the address and to answer the
// client outside.
func (w *world) answeredByOne(a netip.Addr, deadline time.Time) bool {
	w.t.Helper()
	for {
		if len(w.holders(a)) == 1 && w.visit(netip.AddrPortFrom(a, 80), 3) == nil {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func TestAgentsThatAreAllDeletedLeaveTheirAddresses(t *testing.T) {
	w := newWorld(t)
	w.expect("departed") // the agent that ends last has no peer to tell
	s := watchLocal(w)
	s.begin()
	kubectl(w, "delete", "pods", "--namespace", product.Namespace, "--selector", "component=lbnodeagent")
	for _, node := range lab.powered() {
		w.agentReady(node)
	}
	s.rest(patience)
	s.movedOnce()
	s.end(convergence)
}
