package agent

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/testing/expect"
)

// A link is silent as soon as on a node with one link (see "addresses leave a link without any answer" in testdata).
func TestManyLinksFallSilentTogether(t *testing.T) {
	const many = 10
	inWorld(t, func(w *world) {
		w.cluster.snapshot.Agents[0] = lbNodeAgent("default", v2.InterfaceSpec{LocalInterface: "net.*"})
		w.peers.peers.Own = map[netip.Addr]string{}
		b, c := reachable("node-b"), reachable("node-c")
		b.Draining, c.Draining = true, true
		for i := range many {
			name, address := fmt.Sprintf("net%d", i), func(host int) string { return fmt.Sprintf("10.0.%d.%d", i, host) }
			w.kernel.links = append(w.kernel.links, announce.Link{Name: name, Index: 20 + i, Neighbors: true, Up: true, Carrier: true})
			w.kernel.hold(permanent(name, address(1)+"/24"))
			w.kernel.answers[address(2)] = someMAC
			w.peers.peers.Own[addrOf(address(2))], w.peers.peers.Own[addrOf(address(3))] = "node-b", "node-c"
			b.Subnets = append(b.Subnets, netip.MustParsePrefix(address(0)+"/24"))
		}
		c.Subnets, w.peers.peers.Members[0].Subnets, w.peers.peers.Known = b.Subnets, b.Subnets, b.Subnets
		w.peers.peers.Members = append(w.peers.peers.Members, b, c)
	}, func(w *world) {
		var ips []string
		for i := range many {
			ips = append(ips, fmt.Sprintf("10.0.%d.9", i))
		}
		w.cluster.change(serving(branded("web", ips...)))
		pass(time.Minute)
		expect.Equal(t, "addresses, before", fmt.Sprint(len(w.agent.held.read())), fmt.Sprint(many))
		w.kernel.change(func() {
			clear(w.kernel.answers)
			w.kernel.probing = 2 * standingWait
		})
		pass(9 * time.Second)
		expect.Equal(t, "kernel, after three questions", w.kernel.String(), "")
	})
}
