package e2e

import (
	"fmt"
	"testing"
	"time"

	"purelb.io/purelb/lab/kube"
	"purelb.io/purelb/lab/product"
)

// Promise: when the node of the allocator loses its power, allocation stops for at most two minutes.
// No Service loses its address. The lab has the defaults of Kubernetes: a node counts as lost after
// 50 s of silence.

func TestAllocationContinuesAfterTheAllocatorsNodeDied(t *testing.T) {
	w := newWorldFor(t, 3*time.Minute)
	one := w.allocators(2)
	w.losesAllocatorsNode("standby")
	one()
	w.losesAllocatorsNode("alone")
}

// allocators scales the allocator to n replicas. undo scales it back to one.
func (w *world) allocators(n int) (undo func()) {
	w.t.Helper()
	scale := func(n int) {
		kubectl(w, "scale", "deployment", "allocator", "--namespace", product.Namespace, fmt.Sprintf("--replicas=%d", n))
		w.until(3*patience, fmt.Sprintf("%d allocators are ready", n), func() bool { return w.allocatorsReady() == n })
		if n == 0 { // one that is ending still serves
			w.until(patience, "the last allocator has ended", func() bool { return len(w.podsOf("allocator")) == 0 })
		}
	}
	scale(n)
	return w.undoable(func() { scale(1) })
}

// losesAllocatorsNode cuts the power of the node of the leading allocator. It logs the time until a
// new Service has an address, and boots the node.
func (w *world) losesAllocatorsNode(name string) {
	w.t.Helper()
	w.apply(plain(name+"-before", 80, "purelb.io/service-group: remote"))
	before := w.addresses(name+"-before", 1)
	victim := w.leadingPod().Spec.NodeName
	w.crash(victim)
	cut := time.Now()
	w.apply(plain(name+"-after", 80, "purelb.io/service-group: remote"))
	w.until(3*time.Minute, "a new Service has an address", func() bool { return len(kube.Addresses(w.service(name+"-after"))) == 1 })
	w.t.Logf("%s: a new Service had an address %s after the power of %s was cut", name, time.Since(cut).Round(time.Second), victim)
	if now := kube.Addresses(w.service(name + "-before")); !equal(now, before) {
		w.t.Errorf("a Service had %v before the node of its allocator died, and has %v", before, now)
	}
	lab.boot(w.t, victim)
	w.agentReady(victim)
}
