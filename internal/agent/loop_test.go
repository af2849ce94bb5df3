package agent

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/election"
	"purelb.io/purelb/internal/service"
)

func TestANewAddressIsAnnouncedAndReported(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.kernel.changes()
		w.serve(branded("web", "192.0.2.9", "2001:db8::9"), branded("far", "203.0.113.7", "2001:db8:9::7"))
		want(t, "kernel", w.kernel.String(), "192.0.2.9/24 eth0, 2001:db8:9::7/128 kube-lb0, 2001:db8::9/64 eth0, 203.0.113.7/32 kube-lb0")
		want(t, "slots of web", w.slots("web"), "node-a,eth0,192.0.2.9 node-a,eth0,2001:db8::9")
		want(t, "slots of far", w.slots("far"), "")
		want(t, "events", w.reported(), "Normal AnnouncingNonLocal Announcing 203.0.113.7 from node node-a interface kube-lb0\n"+
			"Normal AnnouncingNonLocal Announcing 2001:db8:9::7 from node node-a interface kube-lb0\n"+
			"Normal AnnouncingLocal Node node-a announcing 192.0.2.9 on interface eth0\n"+
			"Normal AnnouncingLocal Node node-a announcing 2001:db8::9 on interface eth0")
		want(t, "log", w.logged("address"), "subnetsChanged\nannouncingNonLocal 203.0.113.7\nannouncingNonLocal 2001:db8:9::7\nelectionWon 192.0.2.9\nelectionWon 2001:db8::9")
		want(t, "published", w.peers.publications(), "[192.0.2.0/24 2001:db8::/64] purelb/default ")
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
# HELP purelb_lbnodeagent_addresses Addresses of Services, by what this node does with them.
# TYPE purelb_lbnodeagent_addresses gauge
purelb_lbnodeagent_addresses{state="elsewhere"} 0
purelb_lbnodeagent_addresses{state="failed"} 0
purelb_lbnodeagent_addresses{state="local"} 2
purelb_lbnodeagent_addresses{state="remote"} 2
purelb_lbnodeagent_addresses{state="undecided"} 0
purelb_lbnodeagent_addresses{state="unplaced"} 0
purelb_lbnodeagent_addresses{state="waiting"} 0
purelb_lbnodeagent_addresses{state="withheld"} 0
# HELP purelb_lbnodeagent_announced_omitted Announced addresses without series of their own, because they are too many.
# TYPE purelb_lbnodeagent_announced_omitted gauge
purelb_lbnodeagent_announced_omitted 0
`)); err != nil {
			t.Error(err)
		}
	})
}

func TestExistingAddressesAreAdoptedWithoutEvents(t *testing.T) {
	inWorld(t, func(w *world) {
		w.kernel.hold(ours("eth0", "192.0.2.9/24", 55*time.Second), ours("eth0", "2001:db8::9/64", 55*time.Second))
		remote := permanent("kube-lb0", "203.0.113.7/32")
		remote.Mark = announce.Mark
		w.kernel.hold(remote)
		w.kernel.links = append(w.kernel.links, announce.Link{Name: "kube-lb0", Up: true})
		web := branded("web", "192.0.2.9", "2001:db8::9")
		web.Annotations[service.AnnotationAnnouncingIPv4] = "node-a,eth0,192.0.2.9"
		web.Annotations[service.AnnotationAnnouncingIPv6] = "node-a,eth0,2001:db8::9"
		w.cluster.snapshot.Services = []corev1.Service{web, branded("far", "203.0.113.7")}
	}, func(w *world) {
		pass(10 * time.Second)
		want(t, "changes", w.kernel.changes(), "")
		want(t, "events", w.reported(), "")
		want(t, "slot writes", w.notes.written(), 0)
	})
}

func TestLeftoversAreRemovedWhenTheClusterIsKnown(t *testing.T) {
	inWorld(t, func(w *world) {
		w.kernel.hold(ours("eth0", "192.0.2.77/24", time.Minute), ours("eth1", "2001:db8::77/64", time.Minute))
		w.kernel.hold(permanent("eth0", "192.0.2.78/24")) // a foreign address in our pool
		w.cluster.missing = true
		w.peers.peers.Trusted = false
	}, func(w *world) {
		const all = "192.0.2.77/24 eth0, 2001:db8::77/64 eth1"
		pass(10 * time.Minute)
		want(t, "kernel, while the cluster is unknown", w.kernel.String(), all)
		w.cluster.change(func(*objects) {})
		pass(10 * time.Minute)
		want(t, "kernel, while the peers are not known", w.kernel.String(), all)
		w.peers.change(func(p *election.Peers) { p.Trusted = true })
		settle()
		want(t, "kernel, when everything is known", w.kernel.String(), "")
		if node, _ := w.kernel.Observe(t.Context()); len(node.Addresses) != 4 {
			t.Errorf("the remaining addresses are %v, want the node's own and the foreign one", node.Addresses)
		}
	})
}

func TestNothingChangesWithoutTheAPIServer(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.serve(branded("web", "192.0.2.9", "2001:db8::9"), branded("far", "203.0.113.7"))
		before := w.kernel.String()
		w.peers.change(func(p *election.Peers) { p.Trusted, p.Members = false, nil })
		w.cluster.change(serving(branded("web", "192.0.2.9", "2001:db8::9"), branded("new", "192.0.2.10")))
		pass(time.Hour)
		want(t, "kernel, after an hour", w.kernel.String(), before)
		w.peers.change(func(p *election.Peers) { p.Trusted, p.Members = true, []election.Member{peer("node-a")} })
		settle()
		want(t, "kernel, with the API server again", w.kernel.String(), "192.0.2.10/24 eth0, 192.0.2.9/24 eth0, 2001:db8::9/64 eth0")
	})
}

func TestNothingChangesWhileTheKernelCannotBeRead(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.serve(branded("web", "192.0.2.9"))
		w.logged()
		w.kernel.changes()
		w.kernel.change(func() { w.kernel.dumpErr = errors.New("dump interrupted") })
		w.cluster.change(serving())
		pass(20 * time.Second)
		want(t, "changes", w.kernel.changes(), "")
		want(t, "log", w.logged("error"), `passFailed "dump`)
		w.kernel.change(func() { w.kernel.dumpErr = nil })
		settle()
		want(t, "kernel", w.kernel.String(), "")
	})
}

func TestAnAddressThatCannotBeAddedIsRetried(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.kernel.change(func() { w.kernel.putErr["192.0.2.9"] = errors.New("no buffer space") })
		w.cluster.change(serving(branded("web", "192.0.2.9", "2001:db8::9")))
		pass(10 * time.Minute)
		if log := w.logged(); strings.Count(log, "passFailed") != 1 || strings.Contains(log, "recovered") {
			t.Errorf("the log is\n%s\nwant one passFailed and no recovery", log)
		}
		want(t, "events", w.reported(), "Warning AnnouncementFailed Node node-a could not announce 192.0.2.9 on interface eth0: no buffer space\n"+
			"Normal AnnouncingLocal Node node-a announcing 2001:db8::9 on interface eth0")
		want(t, "slots", w.slots("web"), "node-a,eth0,2001:db8::9")
		w.kernel.change(func() { delete(w.kernel.putErr, "192.0.2.9") })
		settle()
		want(t, "events", w.reported(), "Normal AnnouncingLocal Node node-a announcing 192.0.2.9 on interface eth0")
		want(t, "slots", w.slots("web"), "node-a,eth0,192.0.2.9 node-a,eth0,2001:db8::9")
	})
}

func TestAnAddressThatCannotMoveStays(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.kernel.change(func() { w.kernel.hold(permanent("eth1", "192.0.2.2/24")) })
		w.serve(branded("web", "192.0.2.9"))
		w.kernel.change(func() { w.kernel.putErr["192.0.2.9"] = errors.New("no buffer space") })
		w.cluster.change(func(s *objects) {
			s.Agents = []v2.LBNodeAgent{lbNodeAgent("default", v2.InterfaceSpec{LocalInterface: "eth1"})}
			s.Agents[0].Generation = 2
		})
		settle()
		want(t, "kernel, while eth1 refuses it", w.kernel.String(), "192.0.2.9/24 eth0")
		w.kernel.change(func() { delete(w.kernel.putErr, "192.0.2.9") })
		settle()
		want(t, "kernel, when eth1 accepts it", w.kernel.String(), "192.0.2.9/24 eth1")
		want(t, "slots", w.slots("web"), "node-a,eth1,192.0.2.9")
	})
}

func TestALostElectionIsLoggedOnce(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.serve(branded("web", "192.0.2.9"))
		w.logged()
		w.peers.change(func(p *election.Peers) { p.Members = append(p.Members, peer("node-b")) })
		settle()
		want(t, "kernel, after a node joined", w.kernel.String(), "192.0.2.9/24 eth0")
		w.cluster.change(func(s *objects) {
			web := branded("web", "192.0.2.9")
			web.ResourceVersion = "9"
			web.Annotations[service.AnnotationAnnouncingIPv4] = "node-b,eth0,192.0.2.9"
			s.Services = []corev1.Service{web}
		})
		pass(10 * time.Minute)
		want(t, "kernel", w.kernel.String(), "")
		want(t, "log", w.logged("address", "reason", "winner"), "lostElection 192.0.2.9 lostElection node-b\nwithdrawAddress 192.0.2.9 lostElection node-b")
		want(t, "slots", w.slots("web"), "node-b,eth0,192.0.2.9")
		want(t, "announced addresses that the metric counts", testutil.CollectAndCount(w.metrics.announced, "purelb_lbnodeagent_announced"), 0)
	})
}

func TestATakeoverFromADeadNodeIsReported(t *testing.T) {
	web := branded("web", "192.0.2.9")
	web.Annotations[service.AnnotationAnnouncingIPv4] = "node-b,eth0,192.0.2.9"
	inWorld(t, func(w *world) {
		w.peers.peers.Members = append(w.peers.peers.Members, peer("node-b"))
		w.cluster.snapshot.Services = []corev1.Service{web}
	}, func(w *world) {
		want(t, "kernel, while the other node is alive", w.kernel.String(), "")
		w.peers.change(func(p *election.Peers) { p.Members = p.Members[:1] })
		settle()
		want(t, "kernel, when it is dead", w.kernel.String(), "192.0.2.9/24 eth0")
		want(t, "slots", w.slots("web"), "node-a,eth0,192.0.2.9")
		want(t, "events", w.reported(), "Normal AnnouncingLocal Node node-a announcing 192.0.2.9 on interface eth0\n"+
			"Normal AnnounceSlotSteal Node node-a took 192.0.2.9 over from node-b")
		want(t, "winner_changes_total", testutil.ToFloat64(w.metrics.winnerChanges.WithLabelValues("default/web")), 1)
	})
}

func TestOnlyLocalAddressesAreRefreshed(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.cluster.change(serving(branded("web", "192.0.2.9", "2001:db8::9"), branded("far", "203.0.113.7")))
		pass(5 * time.Second)
		w.kernel.changes()
		looks := w.kernel.observations()
		pass(10 * time.Minute)
		puts := w.kernel.changes()
		// The lifetime is 60 s, and the agent refreshes it when less than 30 s remain.
		if got := strings.Count(puts, "put 192.0.2.9"); got < 18 || got > 21 {
			t.Errorf("the address is refreshed %d times in ten minutes:\n%s", got, puts)
		}
		if got := strings.Count(puts, "put 2001:db8::9"); got < 18 || got > 21 {
			t.Errorf("the address is refreshed %d times in ten minutes:\n%s", got, puts)
		}
		lacks(t, "changes", puts, "203.0.113.7")
		if observed := w.kernel.observations() - looks; observed > 45 {
			t.Errorf("the agent observes the node %d times in ten minutes", observed)
		}
		want(t, "kernel", w.kernel.String(), "192.0.2.9/24 eth0, 2001:db8::9/64 eth0, 203.0.113.7/32 kube-lb0")
	})
}

func TestAnIdleAgentOnlyObserves(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.serve(branded("far", "203.0.113.7"))
		w.kernel.changes()
		w.reported()
		w.logged()
		looks, writes := w.kernel.observations(), w.notes.written()
		pass(time.Hour)
		want(t, "changes", w.kernel.changes(), "")
		want(t, "events", w.reported(), "")
		want(t, "log", w.logged(), "")
		if got := w.kernel.observations() - looks; got > 61 {
			t.Errorf("the agent observes the node %d times in an hour", got)
		}
		want(t, "slot writes", w.notes.written(), writes)
	})
}

func TestAnAddressThatWasRemovedByHandComesBack(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.serve(branded("web", "192.0.2.9"), branded("far", "203.0.113.7"))
		before := w.kernel.String()
		w.kernel.change(func() { w.kernel.addresses = w.kernel.addresses[:3] })
		settle()
		want(t, "kernel", w.kernel.String(), before)
	})
}

func TestTheNodesOwnAddressIsNotTouched(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.kernel.changes()
		w.cluster.change(serving(branded("web", "192.0.2.1", "2001:db8::1")))
		pass(10 * time.Minute)
		want(t, "changes", w.kernel.changes(), "")
		want(t, "events", w.reported(), "Warning AnnouncementFailed Node node-a could not announce 192.0.2.1: 192.0.2.1 is an address of the node itself, on eth0; exclude it from the pool\n"+
			"Warning AnnouncementFailed Node node-a could not announce 2001:db8::1: 2001:db8::1 is an address of the node itself, on eth0; exclude it from the pool")
		want(t, "slots", w.slots("web"), "")
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

func TestNodeAddressesArePublishedAndNotTaken(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.peers.change(func(p *election.Peers) {
			p.Own = ownedBy("node-b", "192.0.2.9", "2001:db8::9")
		})
		w.kernel.changes()
		w.serve(branded("web", "192.0.2.9", "2001:db8::9", "192.0.2.10"))
		want(t, "kernel", w.kernel.String(), "192.0.2.10/24 eth0")
		want(t, "published addresses of the node", w.peers.own, "[192.0.2.1 198.51.100.1 2001:db8::1]")
		want(t, "events", w.reported(), "Warning AnnouncementFailed Node node-a could not announce 192.0.2.9: 192.0.2.9 is an address of node node-b itself; exclude it from the pool, or take it off that node\n"+
			"Warning AnnouncementFailed Node node-a could not announce 2001:db8::9: 2001:db8::9 is an address of node node-b itself; exclude it from the pool, or take it off that node\n"+
			"Normal AnnouncingLocal Node node-a announcing 192.0.2.10 on interface eth0")
	})
}

func TestAHolderKeepsAddressesThatAnotherNodeAlsoHas(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.cluster.change(serving(branded("web", "192.0.2.9", "2001:db8::9")))
		pass(time.Second)
		before := w.kernel.String()
		w.reported()
		w.kernel.changes()
		w.peers.change(func(p *election.Peers) {
			p.Own = ownedBy("node-b", "192.0.2.9", "2001:db8::9")
		})
		settle()
		want(t, "kernel", w.kernel.String(), before)
		want(t, "changes", w.kernel.changes(), "")
		const too = " is an address of node node-b itself too: clients may reach that node instead; take it off that node, or exclude it from the pool"
		want(t, "events", w.reported(), "Warning AddressConflict 192.0.2.9"+too+"\nWarning AddressConflict 2001:db8::9"+too)
		want(t, "slots", w.slots("web"), "node-a,eth0,192.0.2.9 node-a,eth0,2001:db8::9")
		w.peers.change(func(p *election.Peers) { p.Own = nil })
		pass(time.Minute)
		want(t, "kernel", w.kernel.String(), before)
		want(t, "events", w.reported(), "")
	})
}

func TestGatewaysArePublished(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		want(t, "published gateways", w.peers.gateways, "[]")
		w.kernel.reroute("192.0.2.254", "2001:db8::fe")
		settle()
		want(t, "published gateways", w.peers.gateways, "[192.0.2.254 2001:db8::fe]")
	})
}

func TestPolicyLocalFollowsEndpoints(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		far := branded("far", "203.0.113.7", "2001:db8:9::7")
		far.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		endpoints := func(ready, ends string) func(*objects) {
			return func(s *objects) {
				s.Services = []corev1.Service{far}
				s.Endpoints = map[string][]string{"default/far": strings.Fields(ready)}
				s.Ending = map[string][]string{"default/far": strings.Fields(ends)}
			}
		}
		const announced = "2001:db8:9::7/128 kube-lb0, 203.0.113.7/32 kube-lb0"
		w.serve(far)
		want(t, "kernel, without known endpoints", w.kernel.String(), "")
		w.cluster.change(endpoints("node-a", ""))
		settle()
		want(t, "ready", w.kernel.String(), announced)
		w.cluster.change(endpoints("node-b", "node-a"))
		settle()
		want(t, "kernel, with a terminating endpoint that serves", w.kernel.String(), announced)
		pass(2 * time.Second)
		settle()
		want(t, "kernel, with ready endpoints on other nodes", w.kernel.String(), "")
		w.cluster.change(endpoints("", "node-a node-b"))
		settle()
		want(t, "kernel, without ready endpoints on other nodes", w.kernel.String(), announced)
		w.cluster.change(endpoints("", ""))
		settle()
		want(t, "kernel, with an endpoint that is not ready", w.kernel.String(), "")
	})
}

func TestTheNodeIsObservedASecondAfterARemoteAddress(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		observed := func(what string, times int, within time.Duration) {
			t.Helper()
			before := w.kernel.observations()
			pass(within)
			want(t, fmt.Sprintf("%s: observations within %s", what, within), w.kernel.observations()-before, times)
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

func TestAFailedRemovalIsRetriedWithBackoff(t *testing.T) {
	inWorld(t, func(w *world) { w.kernel.removeErr = errors.New("not permitted") }, func(w *world) {
		w.cluster.change(serving(branded("far", "203.0.113.7")))
		pass(2 * afterwards)
		w.cluster.change(serving())
		before := w.kernel.observations()
		pass(time.Minute)
		if got := w.kernel.observations() - before; got > 8 {
			t.Errorf("the agent observes the node %d times in a minute", got)
		}
		w.kernel.change(func() { w.kernel.removeErr = nil })
		settle()
		want(t, "kernel", w.kernel.String(), "")
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
		want(t, "addresses", fmt.Sprint(len(w.agent.held.read())), "25")
	})
}
