package agent

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/internal/testing/expect"
)

func TestANewAddressIsAnnouncedAndReported(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.kernel.changes()
		w.serve(branded("web", "192.0.2.9", "2001:db8::9"), branded("far", "203.0.113.7", "2001:db8:9::7"))
		expect.Equal(t, "kernel", w.kernel.String(), "192.0.2.9/24 eth0, 2001:db8:9::7/128 kube-lb0, 2001:db8::9/64 eth0, 203.0.113.7/32 kube-lb0")
		expect.Equal(t, "slots of web", w.slots("web"), "node-a,eth0,192.0.2.9 node-a,eth0,2001:db8::9")
		expect.Equal(t, "slots of far", w.slots("far"), "")
		expect.Equal(t, "events", w.reported(), "Normal AnnouncingNonLocal Announcing 203.0.113.7 from node node-a interface kube-lb0\n"+
			"Normal AnnouncingNonLocal Announcing 2001:db8:9::7 from node node-a interface kube-lb0\n"+
			"Normal AnnouncingLocal Node node-a announcing 192.0.2.9 on interface eth0\n"+
			"Normal AnnouncingLocal Node node-a announcing 2001:db8::9 on interface eth0")
		expect.Equal(t, "log", w.logged("address"), "subnetsChanged\nannouncingNonLocal 203.0.113.7\nannouncingNonLocal 2001:db8:9::7\nelectionWon 192.0.2.9\nelectionWon 2001:db8::9")
		expect.Equal(t, "published", w.peers.publications(), "[192.0.2.0/24 2001:db8::/64] purelb/default ")
		if err := testutil.CollectAndCompare(w.metrics.announced, strings.NewReader(`
# HELP purelb_lbnodeagent_announced 1 for each address that this node announces.
# TYPE purelb_lbnodeagent_announced gauge
purelb_lbnodeagent_announced{ip="192.0.2.9",node="node-a",service="default/web"} 1
purelb_lbnodeagent_announced{ip="2001:db8::9",node="node-a",service="default/web"} 1
purelb_lbnodeagent_announced{ip="203.0.113.7",node="node-a",service="default/far"} 1
purelb_lbnodeagent_announced{ip="2001:db8:9::7",node="node-a",service="default/far"} 1
# HELP purelb_lbnodeagent_announced_local 1 for each address of these that one node alone may announce.
# TYPE purelb_lbnodeagent_announced_local gauge
purelb_lbnodeagent_announced_local{ip="192.0.2.9",node="node-a",service="default/web"} 1
purelb_lbnodeagent_announced_local{ip="2001:db8::9",node="node-a",service="default/web"} 1
# HELP purelb_lbnodeagent_addresses Addresses of Services, by what this node does with them. local, remote: it announces them. elsewhere: another node does. withheld: no endpoints. unplaced: no node can announce them. failed: this node should, but cannot. waiting: until no other machine answers. undecided: this node does not know enough.
# TYPE purelb_lbnodeagent_addresses gauge
purelb_lbnodeagent_addresses{state="elsewhere"} 0
purelb_lbnodeagent_addresses{state="failed"} 0
purelb_lbnodeagent_addresses{state="local"} 2
purelb_lbnodeagent_addresses{state="remote"} 2
purelb_lbnodeagent_addresses{state="undecided"} 0
purelb_lbnodeagent_addresses{state="unplaced"} 0
purelb_lbnodeagent_addresses{state="waiting"} 0
purelb_lbnodeagent_addresses{state="withheld"} 0
# HELP purelb_lbnodeagent_announced_omitted Announced addresses without series of their own, because the node has more than --max-address-metrics.
# TYPE purelb_lbnodeagent_announced_omitted gauge
purelb_lbnodeagent_announced_omitted 0
`)); err != nil {
			t.Error(err)
		}
	})
}

// ownedBy returns a map in which these addresses are the node's own.
func ownedBy(node string, ips ...string) map[netip.Addr]string {
	own := map[netip.Addr]string{}
	for _, ip := range ips {
		own[netip.MustParseAddr(ip)] = node
	}
	return own
}

func TestTheNodeIsObservedASecondAfterARemoteAddress(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		observed := func(what string, times int, within time.Duration) {
			t.Helper()
			before := w.kernel.observations()
			pass(within)
			expect.Equal(t, fmt.Sprintf("%s: observations within %s", what, within), w.kernel.observations()-before, times)
		}
		pass(2 * afterwards)
		w.cluster.change(serving(branded("far", "203.0.113.7")))
		observed("added", 1, afterwards/2)
		observed("a second after the address was added", 1, afterwards)
		observed("without a change", 0, fullCheck/2)
		w.cluster.change(serving())
		observed("after a removal", 2, afterwards/2)
	})
}

// Each address is refreshed half a minute after it came.
func TestAddressesThatCameOneByOneAreRefreshedTogether(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		var services []corev1.Service
		for i := range 25 {
			services = append(services, branded(fmt.Sprintf("web-%d", i), fmt.Sprintf("192.0.2.%d", 10+i)))
			w.cluster.change(serving(services...))
			pass(1100 * time.Millisecond)
		}
		pass(2 * time.Minute)
		looks := w.kernel.observations()
		pass(10 * time.Minute)
		if n := w.kernel.observations() - looks; n > 20 {
			t.Errorf("%d passes in ten minutes without a change, want at most 20", n)
		}
		expect.Equal(t, "addresses", fmt.Sprint(len(w.agent.held.read())), "25")
	})
}
