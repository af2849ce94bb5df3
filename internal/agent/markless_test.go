package agent

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// withoutMarks has a kernel without marks, and a node whose own address in a pool
// is of DHCP, as NetworkManager adds it.
func withoutMarks(t *testing.T, before func(*world), test func(*world)) {
	inWorld(t, func(w *world) {
		own := ours("eth0", "192.0.2.50/24", time.Hour)
		own.Mark = 0
		w.kernel.markless = true
		w.kernel.hold(own)
		before(w)
	}, func(w *world) {
		test(w)
		if done := w.kernel.doings(); strings.Contains(done, "192.0.2.50") {
			t.Errorf("the node's own address is touched:\n%s", done)
		}
	})
}

func TestOnAKernelWithoutMarksWhatIsReleasedGoesAndWhatIsTheNodesStays(t *testing.T) {
	withoutMarks(t, func(w *world) {
		w.kernel.hold(ours("eth0", "192.0.2.9/24", time.Minute), ours("eth0", "192.0.2.8/24", time.Minute))
		w.cluster.snapshot.Services = []corev1.Service{heldBy("node-a"), branded("far", "203.0.113.7")}
	}, func(w *world) {
		settle()
		want(t, "kernel", w.kernel.String(), "192.0.2.8/24 eth0, 192.0.2.9/24 eth0, 2001:db8::9/64 eth0, 203.0.113.7/32 kube-lb0")
		pass(10 * time.Minute)
		want(t, "kernel, when what was left behind has expired", w.kernel.String(), "192.0.2.9/24 eth0, 2001:db8::9/64 eth0, 203.0.113.7/32 kube-lb0")
		w.cluster.change(serving())
		settle()
		want(t, "kernel, without Services", w.kernel.String(), "")
	})
}

func TestOnAKernelWithoutMarksWhatMayBeOursLastsWhileTheAPIServerIsAway(t *testing.T) {
	withoutMarks(t, func(w *world) {
		w.kernel.hold(ours("eth0", "192.0.2.9/24", 20*time.Second), ours("eth0", "2001:db8::9/64", 50*time.Second))
		w.cluster.missing = true
		w.agent.Departures = ending(Gone)
	}, func(w *world) {
		pass(10 * time.Minute)
		want(t, "kernel", w.kernel.String(), bothAddresses)
		w.end()
		want(t, "kernel, after the goodbye of an agent that knew nothing", w.kernel.String(), bothAddresses)
	})
}
