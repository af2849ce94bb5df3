package agent

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/internal/testing/expect"
)

// proxied is a world with a router that answers for every address.
func proxied(t *testing.T, before func(*world), test func(*world)) {
	t.Helper()
	inWorld(t, func(w *world) {
		w.kernel.proxy = [6]byte{2, 0, 0, 0, 0, 0xfe}
		w.cluster.snapshot.Services = []corev1.Service{branded("web", "192.0.2.9", "2001:db8::9")}
		if before != nil {
			before(w)
		}
	}, test)
}

func TestAMachineThatAnswersForEveryAddressBlocksNone(t *testing.T) {
	proxied(t, nil, func(w *world) {
		pass(10 * time.Second)
		expect.Equal(t, "kernel", w.kernel.String(), bothAddresses)
		lacks(t, "events", w.reported(), "AddressConflict")
		expect.Equal(t, "lines about it in the log", strings.Count(w.logged("mac"), "proxyAnswers 02:00:00:00:00:fe"), 2) // IPv4, IPv6
		w.cluster.change(serving(branded("web", "192.0.2.9", "2001:db8::9"), branded("next", "192.0.2.10")))
		pass(10 * time.Second)
		expect.Contains(t, "kernel", w.kernel.String(), "192.0.2.10/24 eth0")
		lacks(t, "the log of the next address", w.logged(), "proxyAnswers")
		w.reported()
		w.kernel.heard <- heard("192.0.2.9", 0xfe)
		pass(time.Minute)
		expect.Equal(t, "events, when it claims an address", w.reported(), "")
	})
}

func TestAHolderBesideAProxyIsFound(t *testing.T) {
	proxied(t, func(w *world) { w.kernel.answers["192.0.2.9"] = [6]byte{2, 0, 0, 0, 0, 7} }, func(w *world) {
		pass(time.Minute)
		expect.Equal(t, "kernel", w.kernel.String(), "2001:db8::9/64 eth0")
		expect.Contains(t, "events", w.reported(), "AddressConflict 192.0.2.9 on eth0 is answered by another machine, 02:00:00:00:00:07")
	})
}

// A node that answers is no proxy, and how soon another node takes its addresses depends on the probes.
func TestOnlyStrangersMayBeProxies(t *testing.T) {
	for name, nodes := range map[string]map[[6]byte]string{"a node": {someMAC: "node-b"}, "a stranger": nil} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.kernel.answers["192.0.2.9"] = someMAC
				w.cluster.snapshot.Services = []corev1.Service{branded("web", "192.0.2.9")}
				w.peers.peers.MACs = nodes
			}, func(w *world) {
				pass(time.Minute)
				decoys := maps.Clone(w.kernel.probed)
				maps.DeleteFunc(decoys, func(ip netip.Addr, _ bool) bool {
					return ip == addrOf("192.0.2.9") || slices.Contains(w.kernel.gateways, ip)
				})
				expect.Equal(t, "the agent asks for other addresses", len(decoys) == 3, nodes == nil)
			})
		})
	}
}
