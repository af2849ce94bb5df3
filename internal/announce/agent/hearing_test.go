package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/testing/expect"
)

// withNodeB adds node-b, a live node on the segment with its own addresses. node-b is drained, so
// it gets no address of a Service.
func withNodeB(p *election.Peers) {
	b := reachable("node-b")
	b.Draining = true
	p.Members = append(p.Members, b)
	p.Own = ownedBy("node-b", "192.0.2.2", "2001:db8::2")
}

func TestNothingIsTakenFromASegmentWithoutAnyAnswer(t *testing.T) {
	inWorld(t, func(w *world) { withNodeB(&w.peers.peers) }, func(w *world) {
		w.kernel.reroute("192.0.2.254", "2001:db8::fe")
		w.cluster.change(serving(branded("web", "192.0.2.9", "2001:db8::9")))
		w.logged()
		pass(time.Minute)
		expect.Equal(t, "kernel", w.kernel.String(), "")
		if log := w.logged("interface", "family"); strings.Count(log, "segmentSilent eth0 IPv4") != 1 || strings.Count(log, "\n") != 1 {
			t.Errorf("the log is\n%s\nwant one message segmentSilent for eth0 and IPv4", log)
		}
		if n := testutil.ToFloat64(w.metrics.probes.WithLabelValues("failed")); n < 20 {
			t.Errorf("%v probes failed in a minute, want at least 20", n)
		}
		w.kernel.change(func() { w.kernel.answers["192.0.2.2"] = someMAC })
		pass(2 * time.Second)
		expect.Equal(t, "kernel, when the other node answers by IPv4", w.kernel.String(), "192.0.2.9/24 eth0")
		expect.Equal(t, "log, when the other node answers by IPv4", w.logged("family"), "segmentHeard IPv4\nelectionWon")
		w.kernel.change(func() { w.kernel.answers["2001:db8::2"] = someMAC })
		pass(2 * time.Second)
		expect.Equal(t, "kernel, when it answers by IPv6 too", w.kernel.String(), bothAddresses)
	})
}

// The agent speaks no ARP and no Neighbor Discovery on InfiniBand, WireGuard and tun.
func TestALinkWithoutNeighborsIsLoggedOnce(t *testing.T) {
	noNeighbors := func(w *world) { w.kernel.links[1].Neighbors = false }
	inWorld(t, noNeighbors, func(w *world) {
		w.logged()
		w.cluster.change(serving(branded("web", "192.0.2.9", "2001:db8::9")))
		pass(time.Minute)
		expect.Equal(t, "kernel", w.kernel.String(), bothAddresses)
		w.kernel.change(func() { w.kernel.addresses = w.kernel.addresses[:3] })
		pass(time.Minute)
		if log := w.logged("interface"); strings.Count(log, "linkWithoutNeighbors eth0") != 1 {
			t.Errorf("the log is\n%s\nwant linkWithoutNeighbors once", log)
		}
	})
	inWorld(t, nil, func(w *world) {
		w.cluster.change(serving(branded("web", "192.0.2.9")))
		pass(time.Minute)
		lacks(t, "the log with an Ethernet link", w.logged(), "linkWithoutNeighbors")
	})
}
