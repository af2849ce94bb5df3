package speaker

import (
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/bgp/intent"
	"purelb.io/purelb/internal/testing/expect"
)

// namingPeers returns a group in 203.0.113.0/24 that names these neighbors, or no neighbors.
func namingPeers(peers ...v2.Peer) v2.ServiceGroup {
	g := weighed("purelb", "/32")
	g.Spec.BGP = &v2.RouteAttributes{Peers: peers}
	return g
}

// marked prints the announced routes, with a star behind those with the mark of a group.
func (s *fakeServer) marked() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for key, r := range s.routes {
		line := key.String()
		if len(r.Attributes.Marks) > 0 {
			line += " *"
		}
		all = append(all, line)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// named prints the neighbors that get routes of groups, by the group.
func (s *fakeServer) named() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	peers := map[string][]string{}
	for _, p := range s.state.Peers {
		for _, group := range p.Groups {
			peers[group] = append(peers[group], p.Name())
		}
	}
	var all []string
	for _, group := range slices.Sorted(maps.Keys(peers)) {
		all = append(all, strings.Join(peers[group], " "))
	}
	return strings.Join(all, "; ")
}

func TestAGroupIsAnnouncedToItsPeers(t *testing.T) {
	const two = `{global: {asn: 65000, gracefulRestart: {enabled: true}},
		neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 65001}}, {config: {neighborAddress: 192.0.2.2, peerAsn: 65001}}]}`
	memory := filepath.Join(t.TempDir(), "input.json")
	inWorld(t, two, func(w *world) {
		w.speaker.Memory = memory
		w.kernel.hold("kube-lb0", "203.0.113.1/32", "198.51.100.1/32")
		w.cluster.snapshot.Groups = []v2.ServiceGroup{namingPeers("192.0.2.1")}
	}, func(w *world) {
		expect.Equal(t, "routes", w.server.marked(), "198.51.100.1/32, 203.0.113.1/32 *")
		expect.Equal(t, "neighbors", w.server.named(), "192.0.2.1")

		w.sees(func(s *intent.Snapshot) { s.Groups = []v2.ServiceGroup{namingPeers("192.0.2.2")} })
		expect.Equal(t, "neighbors of another list", w.server.named(), "192.0.2.2")
		w.reported()

		// An event of the group and the status of the node report a name that no neighbor has.
		w.sees(func(s *intent.Snapshot) { s.Groups = []v2.ServiceGroup{namingPeers("192.0.2.2", "spine")} })
		if events := w.reported(); !strings.Contains(events, "RouteAttributesIgnored Node node-a leaves out what cannot be read: peers: no neighbor of a BGPConfiguration has the address, the interface or the peer group spine") {
			t.Errorf("the events are %q", events)
		}
		expect.Contains(t, "conditions", w.reports.conditions(), `ServiceGroup blue: spec.bgp.peers: no neighbor has the address, the interface or the peer group "spine"`)

		w.sees(func(s *intent.Snapshot) { s.Groups = []v2.ServiceGroup{namingPeers()} })
		expect.Equal(t, "routes of a group for all neighbors", w.server.marked(), "198.51.100.1/32, 203.0.113.1/32")
		expect.Equal(t, "its neighbors", w.server.named(), "")
		w.sees(func(s *intent.Snapshot) { s.Groups = []v2.ServiceGroup{namingPeers("192.0.2.1")} })
	})
	inWorld(t, "", func(w *world) {
		w.speaker.Memory = memory
		w.kernel.hold("kube-lb0", "203.0.113.1/32")
		w.cluster.missing = true
	}, func(w *world) {
		pass(2 * patience)
		expect.Equal(t, "routes of the next process without the API server", w.server.marked(), "203.0.113.1/32 *")
		expect.Equal(t, "its neighbors", w.server.named(), "192.0.2.1")
	})
}

// A route of a new group waits for the policy. A route that all neighbors already have does not
// change.
func TestRoutesWaitForThePolicyOfTheirGroup(t *testing.T) {
	inWorld(t, oneNeighbor, func(w *world) {
		w.kernel.hold("kube-lb0", "203.0.113.1/32", "203.0.113.200/32")
		old := namingPeers()
		old.Spec.Remote.V4Pool.Pool = "203.0.113.0/25"
		w.cluster.snapshot.Groups = []v2.ServiceGroup{old}
	}, func(w *world) {
		low, high := namingPeers("192.0.2.1"), namingPeers("192.0.2.1")
		low.Spec.Remote.V4Pool.Pool, high.Spec.Remote.V4Pool.Pool = "203.0.113.0/25", "203.0.113.128/25"
		high.Name, high.UID = "green", "green"
		w.kernel.hold("kube-lb0", "203.0.113.1/32")
		settle()
		w.server.change(func(s *fakeServer) { s.stuck = make(chan struct{}) })
		w.sees(func(s *intent.Snapshot) { s.Groups = []v2.ServiceGroup{low, high} })
		w.kernel.hold("kube-lb0", "203.0.113.1/32", "203.0.113.200/32")
		settle()
		expect.Equal(t, "routes before the policy", w.server.marked(), "203.0.113.1/32")
		w.server.change(func(s *fakeServer) { close(s.stuck); s.stuck = nil })
		pass(time.Minute)
		expect.Equal(t, "routes after the policy", w.server.marked(), "203.0.113.1/32 *, 203.0.113.200/32 *")
	})
}

// The server keeps its old policies while it refuses the new ones.
func TestRoutesWaitUntilTheServerHasThePolicy(t *testing.T) {
	inWorld(t, oneNeighbor, func(w *world) {
		w.kernel.hold("kube-lb0", "203.0.113.1/32")
		w.cluster.snapshot.Groups = []v2.ServiceGroup{namingPeers()}
	}, func(w *world) {
		green := namingPeers("192.0.2.1")
		green.Name, green.UID, green.Spec.Remote.V4Pool.Pool, green.Spec.Remote.V4Pool.Subnet = "green", "green", "198.51.100.0/24", "198.51.100.0/24"
		w.server.change(func(s *fakeServer) { s.refusesPolicies = true })
		w.sees(func(s *intent.Snapshot) { s.Groups = []v2.ServiceGroup{namingPeers("192.0.2.1"), green} })
		w.kernel.hold("kube-lb0", "203.0.113.1/32", "198.51.100.1/32")
		settle()
		expect.Equal(t, "routes with the old policies", w.server.marked(), "203.0.113.1/32")
		w.server.change(func(s *fakeServer) { s.refusesPolicies = false })
		pass(time.Minute)
		expect.Equal(t, "routes with the new policies", w.server.marked(), "198.51.100.1/32 *, 203.0.113.1/32 *")
	})
}

// No group named neighbors before. New addresses wait for the policy. Addresses that all neighbors
// already have do not change.
func TestRoutesOfTheFirstRestrictedGroupsWait(t *testing.T) {
	inWorld(t, oneNeighbor, func(w *world) {
		w.kernel.hold("kube-lb0", "203.0.113.1/32", "198.51.100.1/32", "198.51.100.9/32")
		plain := namingPeers()
		plain.Spec.BGP = nil
		w.cluster.snapshot.Groups = []v2.ServiceGroup{plain, netbox()}
	}, func(w *world) {
		w.server.change(func(s *fakeServer) { s.stuck = make(chan struct{}) })
		w.sees(func(s *intent.Snapshot) {
			s.Groups = []v2.ServiceGroup{namingPeers("192.0.2.1"), netbox("192.0.2.1")}
			s.Managed = []intent.ServiceFacts{managed("netbox", "198.51.100.1")}
		})
		// 198.51.100.9 is on the interface without a Service.
		expect.Equal(t, "routes before the policy", w.server.marked(), "198.51.100.1/32, 198.51.100.9/32, 203.0.113.1/32")
		w.kernel.hold("kube-lb0", "203.0.113.1/32", "203.0.113.2/32", "198.51.100.1/32", "198.51.100.2/32", "198.51.100.9/32")
		w.sees(func(s *intent.Snapshot) { s.Managed = append(s.Managed, managed("netbox", "198.51.100.2")) })
		expect.Equal(t, "routes with new addresses", w.server.marked(), "198.51.100.1/32, 198.51.100.9/32, 203.0.113.1/32")
		w.server.change(func(s *fakeServer) { close(s.stuck); s.stuck = nil })
		pass(time.Minute)
		expect.Equal(t, "routes after the policy", w.server.marked(), "198.51.100.1/32 *, 198.51.100.2/32 *, 203.0.113.1/32 *, 203.0.113.2/32 *")
	})
}

// Only the Service says to which group an address of an IPAM system belongs.
func TestAddressesOfIPAMSystemsAreAnnouncedToThePeersOfTheirGroup(t *testing.T) {
	netbox := netbox("192.0.2.1")
	inWorld(t, oneNeighbor, func(w *world) {
		w.kernel.hold("kube-lb0", "203.0.113.1/32", "198.51.100.1/32", "198.51.100.2/32")
		w.cluster.snapshot.Groups = []v2.ServiceGroup{namingPeers(), netbox}
		w.cluster.snapshot.Managed = []intent.ServiceFacts{managed("blue", "203.0.113.1"), managed("netbox", "198.51.100.1")}
	}, func(w *world) {
		expect.Equal(t, "routes while one Service is not seen", w.server.marked(), "198.51.100.1/32 *, 203.0.113.1/32")
		w.sees(func(s *intent.Snapshot) { s.Managed = append(s.Managed, managed("netbox", "198.51.100.2")) })
		expect.Equal(t, "routes", w.server.marked(), "198.51.100.1/32 *, 198.51.100.2/32 *, 203.0.113.1/32")
		expect.Equal(t, "neighbors", w.server.named(), "192.0.2.1")
	})
}

// An IPAM system manages no addresses of the node itself.
func TestAddressesOfOtherInterfacesNeedNoService(t *testing.T) {
	both := `{netlinkImport: {enabled: true, interfaceList: [kube-lb0, lo]}, ` + oneNeighbor[1:]
	inWorld(t, both, func(w *world) {
		w.kernel.hold("kube-lb0", "198.51.100.1/32")
		w.kernel.hold("lo", "192.0.2.77/32", "192.0.2.78/32")
		w.kernel.change(func(k *fakeKernel) {
			for i := range k.addresses {
				k.addresses[i].Service = k.addresses[i].Address.String() == "192.0.2.78/32"
			}
		})
		w.cluster.snapshot.Groups = []v2.ServiceGroup{netbox("192.0.2.1")}
	}, func(w *world) {
		expect.Equal(t, "routes without Services", w.server.marked(), "192.0.2.77/32")
		w.sees(func(s *intent.Snapshot) { s.Managed = []intent.ServiceFacts{managed("netbox", "192.0.2.78")} })
		expect.Equal(t, "routes with the Service of a marked address", w.server.marked(), "192.0.2.77/32, 192.0.2.78/32 *")
		w.sees(func(s *intent.Snapshot) { s.Managed = []intent.ServiceFacts{managed("netbox", "192.0.2.77")} })
		expect.Equal(t, "routes with a Service that has the address", w.server.marked(), "192.0.2.77/32 *")
	})
}

// The server cannot tell apart routers with the same link-local address.
func TestRoutersWithOneLinkLocalAddressGetNoRestrictedRoutes(t *testing.T) {
	inWorld(t, `{global: {asn: 65000}, neighbors: [{config: {neighborInterface: eth1, peerAsn: 65001}}, {config: {neighborInterface: eth2, peerAsn: 65001}}]}`, func(w *world) {
		w.kernel.routers = map[string]netip.Addr{"eth1": netip.MustParseAddr("fe80::1"), "eth2": netip.MustParseAddr("fe80::2")}
		w.cluster.snapshot.Groups = []v2.ServiceGroup{namingPeers("eth1")}
	}, func(w *world) {
		expect.Equal(t, "neighbors", w.server.named(), "%eth1")
		w.kernel.change(func(k *fakeKernel) { k.routers["eth2"] = k.routers["eth1"] })
		pass(fullCheck)
		expect.Equal(t, "neighbors with the same address", w.server.named(), "")
		expect.Contains(t, "conditions", w.reports.conditions(), "ServiceGroup blue: spec.bgp.peers: fe80::1: the policies cannot tell apart")
	})
}

// netbox returns a group that names these neighbors. NetBox manages its addresses.
func netbox(peers ...v2.Peer) v2.ServiceGroup {
	g := v2.ServiceGroup{Spec: v2.ServiceGroupSpec{
		Netbox: &v2.NetboxSpec{URL: "https://netbox.example", Tenant: "k8s"}, BGP: &v2.RouteAttributes{Peers: peers},
	}}
	g.Namespace, g.Name, g.UID = "purelb", "netbox", "netbox"
	return g
}

// managed returns a Service with an address of a group.
func managed(group, address string) intent.ServiceFacts {
	s := local(group+address, address)
	s.From = group
	return s
}
