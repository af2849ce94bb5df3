package speaker

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/bgp/intent"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/testing/expect"
)

// withBFD is a spec with a neighbor and BFD.
const withBFD = `{global: {asn: 65000}, neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 65001}, bfd: {}}]}`

// setRouter sets the address of the router on eth1 in the kernel and in the server.
func setRouter(w *world, address string) {
	router := netip.MustParseAddr(address)
	w.kernel.change(func(k *fakeKernel) { k.routers["eth1"] = router })
	w.serves(func(s *fakeServer) {
		s.neighbors["%eth1"] = peering.NeighborStatus{Address: router, Interface: "eth1", PeerASN: 65001, State: peering.Established}
	})
}

// When a link fails, the kernel forgets all neighbors before BFD notices the failure. When the
// kernel knows another router, the neighbor is that router.
func TestAnUnnumberedNeighborSurvivesWithoutItsKernelEntry(t *testing.T) {
	const spec = `{global: {asn: 65000}, neighbors: [{config: {neighborInterface: eth1, peerAsn: 65001}, bfd: {}}]}`
	inWorld(t, spec, func(w *world) {
		w.cluster.snapshot.Groups = []v2.ServiceGroup{namingPeers("eth1")}
	}, func(w *world) {
		const session = "asn 65000 id 192.0.2.10, %eth1 asn 65001"
		setRouter(w, "fe80::1%eth1")
		expect.Equal(t, "BFD", w.bfd.String(), "fe80::1%eth1 300ms x 3")
		w.kernel.change(func(k *fakeKernel) { delete(k.routers, "eth1") })
		pass(300 * time.Millisecond)
		expect.Equal(t, "BFD at once", w.bfd.String(), "fe80::1%eth1 300ms x 3")
		pass(10 * time.Minute)
		expect.Equal(t, "BFD", w.bfd.String(), "fe80::1%eth1 300ms x 3")
		expect.Equal(t, "sessions", w.server.String(), session)

		setRouter(w, "fe80::2%eth1")
		expect.Equal(t, "BFD with another router", w.bfd.String(), "fe80::2%eth1 300ms x 3")
		expect.Equal(t, "sessions", w.server.String(), session)
	})
}

// The deletion of the configuration ended BGP. Since then the speaker has read no sessions.
func TestBFDOfARestoredConfigurationWaitsForBGP(t *testing.T) {
	inWorld(t, withBFD, nil, func(w *world) {
		w.serves(established("192.0.2.1", 65001))
		expect.Equal(t, "BFD", w.bfd.String(), "192.0.2.1 300ms x 3")
		config := configuration(t, "default", withBFD)
		w.cluster.change(func(s *intent.Snapshot) { s.Configs = nil })
		atOnce()
		expect.Equal(t, "BFD without a configuration", w.bfd.String(), "")
		w.server.change(func(s *fakeServer) { delete(s.neighbors, "192.0.2.1") })
		w.cluster.change(func(s *intent.Snapshot) { s.Configs = []bgpv1.BGPConfiguration{config} })
		atOnce()
		expect.Equal(t, "sessions", w.server.String(), sessions1)
		expect.Equal(t, "BFD before BGP", w.bfd.String(), "")
		w.serves(established("192.0.2.1", 65001))
		expect.Equal(t, "BFD with BGP", w.bfd.String(), "192.0.2.1 300ms x 3")
	})
}

// Routers with a strict mode wait for BFD before they begin BGP.
func TestBFDDoesNotWaitForARouterThatWaitsForBFD(t *testing.T) {
	inWorld(t, withBFD, nil, func(w *world) {
		w.server.change(func(s *fakeServer) {
			s.neighbors["192.0.2.1"] = peering.NeighborStatus{Address: netip.MustParseAddr("192.0.2.1"), State: peering.Active}
		})
		pass(bfdAnyway / 2)
		expect.Equal(t, "BFD at first", w.bfd.String(), "")
		pass(bfdAnyway/2 + collectPause)
		expect.Equal(t, "BFD when BGP stays down", w.bfd.String(), "192.0.2.1 300ms x 3")
	})
}

func TestBFDThatStartsDuringADeletionEnds(t *testing.T) {
	inWorld(t, withBFD, nil, func(w *world) {
		w.server.change(func(s *fakeServer) { s.stuck = make(chan struct{}) })
		w.cluster.change(func(s *intent.Snapshot) { s.Configs = nil })
		atOnce()
		w.serves(established("192.0.2.1", 65001))
		expect.Equal(t, "BFD during the deletion", w.bfd.String(), "192.0.2.1 300ms x 3")
		close(w.server.stuck)
		settle()
		expect.Equal(t, "sessions", w.server.String(), "stopped, graceful false")
		expect.Equal(t, "BFD", w.bfd.String(), "")
	})
}

func TestABFDSessionThatFailsIsReported(t *testing.T) {
	inWorld(t, withBFD, func(w *world) { w.bfd.err = errFake }, func(w *world) {
		w.serves(established("192.0.2.1", 65001))
		expect.Contains(t, "conditions", w.reports.conditions(), errFake.Error())
		w.bfd.mu.Lock()
		w.bfd.err = nil
		w.bfd.mu.Unlock()
		pass(time.Minute)
		expect.Equal(t, "BFD", w.bfd.String(), "192.0.2.1 300ms x 3")
		expect.Contains(t, "conditions", w.reports.conditions(), "Ready True AllHealthy")
	})
}

func TestTheStatusHasNoRoutesWithoutABGPServer(t *testing.T) {
	inWorld(t, oneNeighbor, func(w *world) {
		w.kernel.hold("kube-lb0", "203.0.113.7/32")
		w.server.err = errors.New("start BGP: address in use")
	}, func(w *world) {
		if r := w.reports.last().Status; r.Healthy || r.RIB.LocalRouteCount != 0 || r.NetlinkImport.ImportedAddresses[0].InRIB {
			t.Errorf("without a server, the status is healthy %v with the RIB %+v and the import %+v", r.Healthy, r.RIB, r.NetlinkImport)
		}
		expect.Contains(t, "conditions", w.reports.conditions(), "start BGP: address in use")
		w.server.change(func(s *fakeServer) { s.err = nil })
		pass(time.Minute)
		if r := w.reports.last().Status; !r.NetlinkImport.ImportedAddresses[0].InRIB {
			t.Errorf("%+v", r.NetlinkImport)
		}
	})
}

func TestNoIPv4RoutesToARouterWithoutIPv6NextHops(t *testing.T) {
	const overIPv6 = `{global: {asn: 65000}, neighbors: [{config: {neighborAddress: '2001:db8::1', peerAsn: 65001}}]}`
	inWorld(t, overIPv6, func(w *world) {
		w.kernel.egress[netip.MustParseAddr("2001:db8::1")] = peering.Egress{Interface: "eth0", Addresses: []netip.Addr{netip.MustParseAddr("2001:db8::10")}}
	}, func(w *world) {
		opened := func(state string, takes bool) {
			w.serves(func(s *fakeServer) {
				established("2001:db8::1", 65001)(s)
				n := s.neighbors["2001:db8::1"]
				n.State, n.Opened, n.ExtendedNextHop = state, true, takes
				s.neighbors["2001:db8::1"] = n
			})
		}
		muted := func() string { return fmt.Sprintf("%v", w.server.peers()[0].Mute) }
		expect.Equal(t, "muted families before an OPEN", muted(), "[]")
		opened(peering.Established, true)
		expect.Equal(t, "muted families with the capability", muted(), "[]")
		opened(peering.Active, false) // the router closed the session because of the routes
		expect.Equal(t, "muted families without the capability", muted(), "[IPv4]")
		if c := w.reports.last().Status.Conditions; !strings.Contains(fmt.Sprint(c), "RFC 8950") {
			t.Errorf("the conditions are %+v", c)
		}
		opened(peering.Established, true)
		expect.Equal(t, "muted families with the capability again", muted(), "[]")
	})
}

func TestBFDWithANeighborBehindRoutersIsMultihop(t *testing.T) {
	const spec = `{global: {asn: 65000}, neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 65001}, ebgpMultihop: {enabled: true, multihopTtl: 2}, bfd: {passive: true}},
		{config: {neighborAddress: 192.0.2.2, peerAsn: 65001}, bfd: {}}]}`
	inWorld(t, spec, func(w *world) {
		established("192.0.2.1", 65001)(w.server)
		established("192.0.2.2", 65001)(w.server)
	}, func(w *world) {
		expect.Equal(t, "BFD", w.bfd.String(), "192.0.2.1 300ms x 3 multihop 254 passive, 192.0.2.2 300ms x 3")
	})
}
