package speaker

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/bgp/bfd"
	"purelb.io/purelb/internal/bgp/gobgp"
	"purelb.io/purelb/internal/bgp/intent"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/testing/expect"
)

const sessions1 = "asn 65000 id 192.0.2.10, 192.0.2.1 asn 65001 via 2001:db8::10"

func TestAllAddressesAreAnnouncedBeforeTheFirstSession(t *testing.T) {
	inWorld(t, oneNeighbor, func(w *world) {
		w.kernel.hold("kube-lb0", "203.0.113.7/32", "2001:db8:9::7/128")
		w.kernel.hold("eth0", "192.0.2.10/24")
	}, func(w *world) {
		expect.Equal(t, "the start", w.server.began, "began with 2 routes, restarting true")
		expect.Equal(t, "sessions", w.server.String(), sessions1)
		expect.Equal(t, "routes", w.server.announces(), "2001:db8:9::7/128, 203.0.113.7/32")
	})
}

func TestAStartWithoutAddressesIsNoRestart(t *testing.T) {
	inWorld(t, oneNeighbor, nil, func(w *world) {
		expect.Equal(t, "the start", w.server.began, "began with 0 routes, restarting false")
	})
}

func TestSessionsWaitForTheAddresses(t *testing.T) {
	inWorld(t, oneNeighbor, func(w *world) { w.kernel.listErr = errFake }, func(w *world) {
		pass(time.Minute)
		expect.Equal(t, "sessions", w.server.String(), "")
		w.kernel.hold("kube-lb0", "203.0.113.7/32")
		w.kernel.change(func(k *fakeKernel) { k.listErr = nil })
		pass(time.Minute)
		expect.Equal(t, "the start", w.server.began, "began with 1 routes, restarting true")
	})
}

// The server sets no routes while it is applying.
func TestAnAddressThatComesDuringAnApplyIsAnnouncedAfterIt(t *testing.T) {
	inWorld(t, oneNeighbor, nil, func(w *world) {
		w.server.change(func(s *fakeServer) { s.stuck = make(chan struct{}) })
		w.edit(strings.ReplaceAll(oneNeighbor, "65001", "65002"))
		w.kernel.hold("kube-lb0", "203.0.113.7/32")
		synctest.Wait() // no time passes
		w.kernel.hold("kube-lb0", "203.0.113.7/32", "203.0.113.8/32")
		synctest.Wait()
		w.kernel.hold("kube-lb0", "203.0.113.8/32")
		synctest.Wait()
		close(w.server.stuck)
		synctest.Wait()
		expect.Equal(t, "routes after the Apply", w.server.announces(), "203.0.113.8/32")
		w.kernel.hold("kube-lb0")
		synctest.Wait()
		expect.Equal(t, "routes without the address", w.server.announces(), "")
		expect.Equal(t, "sessions", w.server.String(), strings.ReplaceAll(sessions1, "65001", "65002"))
	})
}

func TestAddressesOfOneNetworkAreOneRouteUntilTheLastGoes(t *testing.T) {
	inWorld(t, oneNeighbor, nil, func(w *world) {
		for _, step := range []struct{ addresses, want string }{
			{"203.0.113.7/24 203.0.113.8/24 2001:db8:9::1/64 2001:db8:9::2/64", "2001:db8:9::/64, 203.0.113.0/24"},
			{"203.0.113.8/24 2001:db8:9::1/64", "2001:db8:9::/64, 203.0.113.0/24"},
			{"203.0.113.8/32 2001:db8:9::1/64", "2001:db8:9::/64, 203.0.113.8/32"},
			{"", ""},
		} {
			w.kernel.hold("kube-lb0", strings.Fields(step.addresses)...)
			atOnce()
			expect.Equal(t, "routes of "+step.addresses, w.server.announces(), step.want)
		}
	})
}

func TestAChangeOfInterfacesHasNoGap(t *testing.T) {
	inWorld(t, oneNeighbor, func(w *world) {
		w.kernel.hold("kube-lb0", "203.0.113.7/32", "203.0.113.8/32")
		w.kernel.hold("lb1", "203.0.113.7/32", "203.0.113.9/32")
	}, func(w *world) {
		w.kernel.change(func(k *fakeKernel) { k.listErr = errFake })
		other := strings.Replace(oneNeighbor, "{global", "{netlinkImport: {enabled: true, interfaceList: [lb1]}, global", 1)
		w.edit(other)
		expect.Equal(t, "routes while the new interface cannot be read", w.server.announces(), "203.0.113.7/32, 203.0.113.8/32")
		w.kernel.change(func(k *fakeKernel) { k.listErr = nil })
		pass(time.Minute)
		expect.Equal(t, "routes when the new interface can be read", w.server.announces(), "203.0.113.7/32, 203.0.113.9/32")
		w.edit(strings.Replace(oneNeighbor, "{global", "{netlinkImport: {enabled: false}, global", 1))
		expect.Equal(t, "routes without an import", w.server.announces(), "")
	})
}

// Not only the BGPConfiguration says what a node announces, and how.
func TestANodeWithARefusedConfigurationFollowsOtherChanges(t *testing.T) {
	refused := strings.Replace(oneNeighbor, "asn: 65000", "asn: 0", 1)
	inWorld(t, oneNeighbor, func(w *world) {
		w.kernel.hold("kube-lb0", "203.0.113.7/32")
		w.kernel.hold("lb7", "203.0.113.8/32")
	}, func(w *world) {
		w.edit(refused)
		w.cluster.change(func(s *intent.Snapshot) {
			s.Agents = []v2.LBNodeAgent{{
				ObjectMeta: metav1.ObjectMeta{Namespace: "purelb", Name: "default", UID: "1"},
				Spec:       v2.LBNodeAgentSpec{Local: &v2.InterfaceSpec{DummyInterface: "lb7"}},
			}}
		})
		w.kernel.change(func(k *fakeKernel) {
			k.egress[netip.MustParseAddr("192.0.2.1")] = peering.Egress{Interface: "eth0", Addresses: []netip.Addr{netip.MustParseAddr("2001:db8::11")}}
		})
		pass(time.Minute)
		expect.Equal(t, "routes", w.server.announces(), "203.0.113.8/32")
		expect.Contains(t, "conditions", w.reports.conditions(), "Ready False Degraded")
		expect.Contains(t, "conditions", w.reports.conditions(), "Configured False ConfigurationInvalid: spec.global.asn: ")
		expect.Equal(t, "sessions", w.server.String(), strings.Replace(sessions1, "::10", "::11", 1))
	})
}

func TestARefusedConfigurationAfterADeletionStartsNothing(t *testing.T) {
	inWorld(t, oneNeighbor, nil, func(w *world) {
		w.sees(func(s *intent.Snapshot) { s.Configs = nil })
		w.edit(strings.Replace(oneNeighbor, "asn: 65000", "asn: 0", 1))
		expect.Equal(t, "sessions", w.server.String(), "stopped, graceful false")
	})
}

// The next process applies the configuration. Routers keep the routes until then.
func TestAnotherGlobalEndsTheProcess(t *testing.T) {
	inWorld(t, oneNeighbor, func(w *world) { w.kernel.hold("kube-lb0", "203.0.113.7/32") }, func(w *world) {
		w.edit(strings.Replace(oneNeighbor, "asn: 65000", "asn: 65000, listenPort: 1179", 1))
		expect.Equal(t, "the end", w.server.String(), "stopped, graceful true")
		expect.Contains(t, "conditions", w.reports.conditions(), "Ready False AgentShutdown: ")
		expect.Equal(t, "that the program begins again", w.restarted, true)
	})
}

func TestDeletingTheConfigurationWithdrawsEverything(t *testing.T) {
	inWorld(t, oneNeighbor, func(w *world) { w.kernel.hold("kube-lb0", "203.0.113.7/32") }, func(w *world) {
		w.sees(func(s *intent.Snapshot) { s.Configs = nil })
		expect.Equal(t, "sessions", w.server.String(), "stopped, graceful false")
		expect.Equal(t, "routes", w.server.announces(), "")
		expect.Equal(t, "conditions", w.reports.conditions(), "Ready True NotConfigured: there is no BGPConfiguration for this node, so it does not speak BGP\n"+
			"Configured False NotConfigured: there is no BGPConfiguration for this node\nRouterIDResolved False NotConfigured: there is no BGPConfiguration for this node")
		if s := w.reports.last().Status; s.ASN != 0 || s.RouterID != "" || len(s.Neighbors) > 0 || s.NetlinkImport.Enabled {
			t.Errorf("the status still has what was configured: %+v", s)
		}
		w.edit(oneNeighbor)
		expect.Equal(t, "sessions when it is back", w.server.String(), sessions1)
		expect.Equal(t, "routes when it is back", w.server.announces(), "203.0.113.7/32")
	})
}

func TestAConfigurationUnderDeletionHasNoEffect(t *testing.T) {
	inWorld(t, oneNeighbor, nil, func(w *world) {
		w.sees(func(s *intent.Snapshot) {
			s.Configs[0].DeletionTimestamp = &metav1.Time{Time: time.Now()}
			s.Configs[0].Finalizers = []string{"bgp.purelb.io/finalizer", "example.org/other"}
		})
		expect.Equal(t, "sessions", w.server.String(), "stopped, graceful false")
	})
}

func TestNothingIsWithdrawnWhileTheClusterIsUnknown(t *testing.T) {
	inWorld(t, oneNeighbor, func(w *world) { w.kernel.hold("kube-lb0", "203.0.113.7/32") }, func(w *world) {
		w.cluster.change(func(s *intent.Snapshot) { s.Configs = nil })
		w.cluster.mu.Lock()
		w.cluster.missing = true
		w.cluster.mu.Unlock()
		pass(10 * time.Minute)
		expect.Equal(t, "sessions", w.server.String(), sessions1)
		expect.Equal(t, "routes", w.server.announces(), "203.0.113.7/32")
	})
}

func TestANeighborIsDownWhenItsBFDSessionIsDown(t *testing.T) {
	const watched = `{global: {asn: 65000}, neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 65001}, bfd: {enabled: true}}]}`
	inWorld(t, watched, nil, func(w *world) {
		expect.Equal(t, "sessions before BGP", w.bfd.String(), "")
		w.serves(established("192.0.2.1", 65001))
		expect.Equal(t, "sessions", w.bfd.String(), "192.0.2.1 300ms x 3")
		w.serves(func(s *fakeServer) { delete(s.neighbors, "192.0.2.1") })
		expect.Equal(t, "sessions without BGP", w.bfd.String(), "192.0.2.1 300ms x 3")
		peer := netip.MustParseAddr("192.0.2.1")
		downs := func(e bfd.Event) string {
			e.Peer = peer
			w.bfd.events <- e
			atOnce()
			w.server.mu.Lock()
			defer w.server.mu.Unlock()
			return fmt.Sprint(w.server.downs)
		}
		expect.Equal(t, "neighbors down before BFD is up", downs(bfd.Event{From: bfd.Down, To: bfd.Init}), "[]")
		expect.Equal(t, "neighbors down when BFD is up", downs(bfd.Event{From: bfd.Init, To: bfd.Up}), "[]")
		expect.Equal(t, "neighbors down when the other end disables BFD", downs(bfd.Event{From: bfd.Up, To: bfd.Down, RemoteAdminDown: true}), "[]")
		expect.Equal(t, "neighbors down when BFD is down", downs(bfd.Event{From: bfd.Up, To: bfd.Down}), "[192.0.2.1]")
		w.edit(strings.Replace(watched, "enabled: true", "enabled: false", 1))
		expect.Equal(t, "BFD without neighbors", w.bfd.String(), "")
	})
}

func TestANewPasswordIsUsedAtOnceAndShownNowhere(t *testing.T) {
	secret := func(value string) func(*intent.Snapshot) {
		return func(s *intent.Snapshot) {
			s.Secrets = map[string]peering.Secret{"bgp": {Known: true, Exists: true, Data: map[string][]byte{"password": []byte(value)}}}
		}
	}
	inWorld(t, secretly, func(w *world) { secret("hush-1")(&w.cluster.snapshot) }, func(w *world) {
		expect.Equal(t, "sessions", w.server.String(), sessions1+" md5 hush-1")
		w.cluster.change(secret("hush-2"))
		atOnce()
		expect.Equal(t, "sessions with a new password", w.server.String(), sessions1+" md5 hush-2")
		w.sees(func(s *intent.Snapshot) { s.Secrets = map[string]peering.Secret{"bgp": {}} })
		expect.Equal(t, "sessions with an unreadable Secret", w.server.String(), sessions1+" md5 hush-2")
		all := ""
		for what, data := range map[string]peering.Secret{
			"secret purelb/bgp does not exist": {Known: true}, `secret purelb/bgp has no key "password"`: {Known: true, Exists: true},
		} {
			w.sees(func(s *intent.Snapshot) { s.Secrets = map[string]peering.Secret{"bgp": data} })
			expect.Equal(t, "sessions while "+what, w.server.String(), sessions1+" md5 hush-2")
			all += w.state()
			if c := w.reports.conditions(); !strings.Contains(c, what+": the password that was there before is in use") || w.reports.last().Status.Healthy {
				t.Errorf("while %s, the conditions are %s", what, c)
			}
		}
		w.sees(secret(strings.Repeat("hush", 30)))
		expect.Equal(t, "sessions with a password that is too long", w.server.String(), "asn 65000 id 192.0.2.10")
		w.sees(func(s *intent.Snapshot) { s.Secrets = map[string]peering.Secret{"bgp": {Known: true}} })
		expect.Equal(t, "sessions with a deleted Secret", w.server.String(), "asn 65000 id 192.0.2.10")
		expect.Contains(t, "conditions", w.reports.conditions(), "secret purelb/bgp does not exist")
		all += w.log.String() + w.state() + w.reported() + w.reports.conditions() + fmt.Sprint(w.reports.last())
		if strings.Contains(all, "hush") {
			t.Error("the log, the events or the status contain a password:\n" + all)
		}
	})
}

func TestRoutesHaveTheAttributesOfGroupsAndServices(t *testing.T) {
	med := int64(50)
	inWorld(t, oneNeighbor, func(w *world) {
		w.kernel.hold("kube-lb0", "203.0.113.7/32", "203.0.113.8/32", "198.51.100.1/32")
		w.cluster.snapshot.Groups = []v2.ServiceGroup{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "purelb", Name: "blue", UID: "blue"},
			Spec: v2.ServiceGroupSpec{
				Remote: &v2.RemoteSpec{Pools: v2.Pools{V4Pool: &v2.AddressPool{Pool: "203.0.113.0/24", Subnet: "203.0.113.0/24", Aggregation: "/32"}}},
				BGP:    &v2.RouteAttributes{Communities: []v2.Community{"65000:100"}, MED: &med},
			},
		}}
		w.cluster.snapshot.Services = []intent.ServiceFacts{{
			Name: "default/web", Annotations: map[string]string{peering.AnnotationCommunities: "65000:7,65000:8"},
			Addresses: []netip.Addr{netip.MustParseAddr("203.0.113.8")},
		}}
	}, func(w *world) {
		expect.Equal(t, "routes", w.server.announces(), "198.51.100.1/32, 203.0.113.7/32 65000:100 med 50, 203.0.113.8/32 65000:7 65000:8 med 50")
		w.kernel.hold("kube-lb0", "203.0.113.9/32")
		atOnce()
		expect.Equal(t, "routes with a new address", w.server.announces(), "203.0.113.9/32 65000:100 med 50")
		w.cluster.change(func(s *intent.Snapshot) { s.Groups = nil })
		atOnce()
		expect.Equal(t, "routes without the group", w.server.announces(), "203.0.113.9/32")
	})
}

func TestUnnumberedNeighborsAreAdvertisedTo(t *testing.T) {
	const spec = `{global: {asn: 65000}, neighbors: [{config: {neighborInterface: eth1, peerAsn: 65001}, bfd: {enabled: true}}]}`
	inWorld(t, spec, nil, func(w *world) {
		expect.Equal(t, "sessions", w.server.String(), "asn 65000 id 192.0.2.10")
		expect.Contains(t, "conditions", w.reports.conditions(), "spec.neighbors[0]: neighbor %eth1: there is no router on the link, or more than one")
		expect.Equal(t, "advertisements", w.kernel.advertising(), "eth1")
		expect.Equal(t, "BFD", w.bfd.String(), "")
		w.routed(func(k *fakeKernel) { k.routers["eth1"] = netip.MustParseAddr("fe80::1%eth1") })
		expect.Equal(t, "sessions when the router is known", w.server.String(), "asn 65000 id 192.0.2.10, %eth1 asn 65001")
		expect.Equal(t, "BFD before BGP", w.bfd.String(), "")
		w.serves(func(s *fakeServer) {
			s.neighbors["%eth1"] = peering.NeighborStatus{Address: netip.MustParseAddr("fe80::1%eth1"), Interface: "eth1", State: peering.Established}
		})
		expect.Equal(t, "BFD with BGP", w.bfd.String(), "fe80::1%eth1 300ms x 3")
		w.edit(`{global: {asn: 65000}}`)
		expect.Equal(t, "advertisements without the neighbor", w.kernel.advertising(), "")
	})
}

func TestARefusedPartIsRetried(t *testing.T) {
	inWorld(t, oneNeighbor, func(w *world) {
		w.server.refuse = []peering.Problem{{Field: "spec.neighbors[0]", Reason: "X", Message: "not like this"}}
	}, func(w *world) {
		expect.Contains(t, "conditions", w.reports.conditions(), "Configured False ConfigurationInvalid: spec.neighbors[0]: not like this")
		w.server.change(func(s *fakeServer) { s.refuse = nil })
		pass(time.Minute)
		expect.Contains(t, "conditions", w.reports.conditions(), "Configured True")
		before := w.server.applied
		pass(time.Hour)
		if w.server.applied != before {
			t.Errorf("the server was applied %d more times although nothing changed", w.server.applied-before)
		}
	})
}

func TestAFailedAnnouncementIsRetried(t *testing.T) {
	inWorld(t, oneNeighbor, nil, func(w *world) {
		w.server.change(func(s *fakeServer) { s.err = errFake })
		w.kernel.hold("kube-lb0", "203.0.113.7/32")
		settle()
		if r := w.reports.last().Status; r.Healthy || r.NetlinkImport.ImportedAddresses[0].InRIB {
			t.Errorf("the status is healthy %v with the import %+v, want it not healthy", r.Healthy, r.NetlinkImport)
		}
		w.server.change(func(s *fakeServer) { s.err = nil })
		pass(time.Minute)
		expect.Equal(t, "routes", w.server.announces(), "203.0.113.7/32")
	})
}

func TestABrokenServerEndsTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, oneNeighbor, "")
		w.server.err = fmt.Errorf("announce: %w", gobgp.ErrBroken)
		w.start()
		settle()
		if err := w.end(); !errors.Is(err, gobgp.ErrBroken) {
			t.Errorf("the speaker ended with %v, want ErrBroken", err)
		}
	})
}

func TestSessionChangesAreReported(t *testing.T) {
	inWorld(t, oneNeighbor, func(w *world) { w.kernel.hold("kube-lb0", "203.0.113.7/32") }, func(w *world) {
		expect.Equal(t, "events", w.reported(), "Normal RouterIDResolved Node node-a has the router ID 192.0.2.10 (node-ipv4)")
		expect.Equal(t, "conditions", w.reports.conditions(), "Ready False Degraded: 192.0.2.1 is Idle\n"+
			"Configured True ReconcileSuccess: all of the BGPConfiguration is in effect on this node\nRouterIDResolved True Resolved: 192.0.2.10, by node-ipv4")
		w.serves(established("192.0.2.1", 65001))
		expect.Equal(t, "events when the session is up", w.reported(), "Normal NeighborUp Node node-a has a session with 192.0.2.1")
		expect.Equal(t, "conditions when the session is up", w.reports.conditions(), "Ready True AllHealthy: 1 neighbor(s) established, netlinkImport active\n"+
			"Configured True ReconcileSuccess: all of the BGPConfiguration is in effect on this node\nRouterIDResolved True Resolved: 192.0.2.10, by node-ipv4")
		if r := w.reports.last(); !r.Status.Healthy || r.Status.NeighborCount != 1 || r.NodeUID != "uid-a" || r.Heartbeat != time.Minute {
			t.Errorf("%+v", r)
		}
		w.serves(func(s *fakeServer) {
			n := s.neighbors["192.0.2.1"]
			n.State, n.LastError = peering.Active, "hold timer expired"
			s.neighbors["192.0.2.1"] = n
		})
		expect.Equal(t, "events when the session is down", w.reported(), "Warning NeighborDown Node node-a has lost the session with 192.0.2.1: hold timer expired")
		expect.Contains(t, "conditions", w.reports.conditions(), "Ready False Degraded: 192.0.2.1 is Active")
	})
}

func TestAnIdleSpeakerReportsNothing(t *testing.T) {
	inWorld(t, oneNeighbor, func(w *world) {
		w.kernel.hold("kube-lb0", "203.0.113.7/32")
		established("192.0.2.1", 65001)(w.server)
	}, func(w *world) {
		w.reported()
		before := w.log.String()
		status := w.reports.last().Status
		pass(time.Hour)
		expect.Equal(t, "events", w.reported(), "")
		expect.Equal(t, "log", strings.TrimPrefix(w.log.String(), before), "")
		if peering.Differs(status, w.reports.last().Status) {
			t.Error("the status of an idle speaker changes")
		}
	})
}

func TestTheStateListsAllRoutes(t *testing.T) {
	inWorld(t, oneNeighbor, func(w *world) {
		w.kernel.hold("kube-lb0", strings.Fields("203.0.113.1/32 203.0.113.2/32 203.0.113.3/32 203.0.113.4/32 203.0.113.5/32 203.0.113.6/32")...)
	}, func(w *world) {
		listed := len(w.reports.last().Status.RIB.LocalRoutes)
		expect.Equal(t, "routes in the status and in /state", fmt.Sprint(listed, strings.Count(w.state(), `"nextHop"`)), "5 6")
	})
}

func TestTheProbesDoNotDependOnNeighbors(t *testing.T) {
	inWorld(t, oneNeighbor, func(w *world) { w.cluster.missing = true }, func(w *world) {
		if w.speaker.Ready() == nil {
			t.Error("the speaker is ready before it knows the cluster")
		}
		w.sees(func(*intent.Snapshot) {})
		if err := errors.Join(w.speaker.Ready(), w.speaker.Healthy()); err != nil {
			t.Error(err)
		}
	})
}
