package e2e

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"purelb.io/purelb/lab/product"
)

// Promise: a node that is off gets no new address. When the pods of all agents are deleted together,
// the loss is not greater than in a handover.

// Agents that have just started know a node that is off only by its Lease, which is valid for three
// minutes.
func TestANodeThatIsOffGetsNoNewAddress(t *testing.T) {
	w := newWorld(t)
	if dark := w.unansweredBesideADeadNode(); dark > 0 {
		t.Errorf("no node answers for %d new addresses while a node of their segment is off and all agents are new", dark)
	}
}

// BenchmarkFreshAgents counts new addresses for which no node answers while a node of their segment is
// off and all agents have just started.
func BenchmarkFreshAgents(b *testing.B) {
	w := newWorld(b)
	for b.Loop() {
		fmt.Printf("RESULT fresh_agents_dead_node_unanswered %d addresses\n", w.unansweredBesideADeadNode())
	}
}

// unansweredBesideADeadNode cuts the power of one of the two nodes of a segment, ends all agents and
// the allocator, and makes eight Services. It returns the number of addresses for which not exactly
// one node answers within ten seconds.
func (w *world) unansweredBesideADeadNode() (dark int) {
	w.t.Helper()
	s := watchLocal(w)
	off := other(w.t, s.holder())
	w.crash(off)
	kubectl(w, "wait", "--for=condition=Ready=Unknown", "node/"+off, "--timeout=3m")
	w.freshAllocator() // the old allocator may have run on the victim
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
				w.t.Logf("%s is on %v, and the client gets no answer", a, w.holders(a))
				dark++
			}
		}
	}
	w.t.Logf("%d addresses after %s", 2*services-dark, time.Since(began).Round(100*time.Millisecond))
	lab.boot(w.t, off)
	w.agentReady(off)
	return dark
}

// answeredByOne reports whether, before the deadline, exactly one node carries the address and the
// client outside gets an answer.
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

func TestDeletingAllAgentsCostsOneHandover(t *testing.T) {
	w := newWorld(t)
	w.expect("departed", "messageNotSent") // the peers for a handover end too
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
