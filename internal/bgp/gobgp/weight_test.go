package gobgp

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/testing/bgptest"
	"purelb.io/purelb/internal/testing/expect"
)

const weightedAddress = "198.51.100.1"

// TestRoutersDivideConnectionsByWeight opens 2,000 connections through a router to two nodes.
// First the nodes have three endpoints and one endpoint, then one each.
func TestRoutersDivideConnectionsByWeight(t *testing.T) {
	for name, routerASN := range map[string]uint32{"eBGP": routerAS, "iBGP": ourAS} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			second := w.machine()
			router, client := w.weighing(routerASN, second)
			here := bgptest.Here(t)
			t.Cleanup(func() { here.IP("address del " + weightedAddress + "/32 dev lo") })

			s := newServer(t)
			announce(t, s, weighted(3))
			apply(t, s, state(inAS(peer("192.0.2.3"), routerASN)))
			other := state(inAS(peer("192.0.2.3"), routerASN))
			other.Global.RouterID = netip.MustParseAddr("192.0.2.2")
			startSpeakerIn(t, second, orders{State: other, Routes: []peering.Route{weighted(1)}})
			router.Await(weightedAddress + "/32 via 192.0.2.1 192.0.2.2")

			atFirst, atSecond := accepting(t, here), accepting(t, second)
			// FRR writes each share as a percentage.
			router.AwaitWeights(weightedAddress+"/32", "192.0.2.1=75 192.0.2.2=25")
			connect(t, client, 2000)
			// With 3 to 1 the standard deviation is 19.
			if n := atFirst.Load(); n < 1380 || n > 1620 || n+atSecond.Load() != 2000 {
				t.Errorf("%d and %d of 2000 connections, want 3 to 1", n, atSecond.Load())
			}
			t.Logf("3 to 1: %d and %d of 2000", atFirst.Load(), atSecond.Load())

			monitor := router.Monitor()
			announce(t, s, weighted(1))
			router.AwaitWeights(weightedAddress+"/32", "192.0.2.1=50 192.0.2.2=50")
			for _, e := range monitor.Events(t) {
				if strings.HasPrefix(e, "del") {
					t.Errorf("the change of a weight withdrew a route: %s", e)
				}
			}
			atFirst.Store(0)
			atSecond.Store(0)
			connect(t, client, 2000)
			if n := atFirst.Load(); n < 850 || n > 1150 || n+atSecond.Load() != 2000 {
				t.Errorf("%d and %d of 2000 connections, want 1 to 1", n, atSecond.Load())
			}
			t.Logf("1 to 1: %d and %d of 2000", atFirst.Load(), atSecond.Load())
		})
	}
}

func weighted(endpoints uint32) peering.Route {
	return peering.Route{Prefix: netip.MustParsePrefix(weightedAddress + "/32"), Attributes: peering.Attributes{Weight: endpoints}}
}

func inAS(p peering.Peer, asn uint32) peering.Peer {
	p.ASN = asn
	return p
}

// weighing makes the router 192.0.2.3 in the AS asn. Its neighbors are this node and the second
// node.
func (w *world) weighing(asn uint32, second *bgptest.Namespace) (*bgptest.Router, *bgptest.Namespace) {
	w.t.Helper()
	n := w.machine()
	n.Sysctl("net.ipv4.fib_multipath_hash_policy", "1")
	client := bgptest.NewNamespace(w.t)
	behind := bgptest.NewSegment(w.t)
	behind.Join(n, "eth1", "203.0.113.1/24")
	behind.Join(client, "eth0", "203.0.113.2/24")
	client.IP("route add default via 203.0.113.1")
	for _, node := range []*bgptest.Namespace{bgptest.Here(w.t), second} {
		node.IP("address add " + weightedAddress + "/32 dev lo\nroute add 203.0.113.0/24 via 192.0.2.3")
	}
	var lines []string
	for _, node := range []string{"192.0.2.1", "192.0.2.2"} {
		lines = append(lines, fmt.Sprintf(" neighbor %[1]s remote-as %[2]d\n neighbor %[1]s timers 10 30\n neighbor %[1]s timers connect 1", node, ourAS))
	}
	return bgptest.FRR(w.t, n, fmt.Sprintf(`
router bgp %d
 bgp router-id 192.0.2.3
 no bgp ebgp-requires-policy
%s
 address-family ipv4 unicast
  maximum-paths 8
  maximum-paths ibgp 8
 exit-address-family
`, asn, strings.Join(lines, "\n"))), client
}

// accepting counts the connections to the address on a node.
func accepting(t *testing.T, n *bgptest.Namespace) *atomic.Int32 {
	t.Helper()
	var listener net.Listener
	var err error
	n.Do(func() { listener, err = net.Listen("tcp", weightedAddress+":80") })
	expect.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	var count atomic.Int32
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			count.Add(1)
			_, _ = conn.Write([]byte("."))
			_ = conn.Close()
		}
	}()
	return &count
}

// connect opens connections one after another, and waits for the answer of each.
func connect(t *testing.T, n *bgptest.Namespace, connections int) {
	t.Helper()
	var err error
	n.Do(func() {
		for range connections {
			var conn net.Conn
			if conn, err = net.Dial("tcp", weightedAddress+":80"); err != nil {
				return
			}
			_, err = conn.Read(make([]byte, 1))
			_ = conn.Close()
			if err != nil {
				return
			}
		}
	})
	expect.NoError(t, err)
}
