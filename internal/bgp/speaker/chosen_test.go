package speaker

import (
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/bgp/intent"
	"purelb.io/purelb/internal/testing/expect"
)

// onEdge returns a group whose addresses only the nodes of a rack announce.
func onEdge(pool, aggregation, rack string) v2.ServiceGroup {
	g := weighed("purelb", aggregation)
	g.Spec.Remote.V4Pool.Pool, g.Spec.Remote.V4Pool.Subnet = v2.Range(pool), "203.0.113.0/24"
	g.Spec.BGP = &v2.RouteAttributes{NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"rack": rack}}}
	return g
}

// labeled sets the labels of the node.
func labeled(s *intent.Snapshot, labels map[string]string) {
	node := *s.Node
	node.Labels = labels
	s.Node = &node
}

func TestOnlySelectedNodesAnnounceAGroup(t *testing.T) {
	memory := filepath.Join(t.TempDir(), "input.json")
	inWorld(t, oneNeighbor, func(w *world) {
		w.speaker.Memory = memory
		w.kernel.hold("kube-lb0", "203.0.113.1/32", "203.0.113.200/32")
		w.cluster.snapshot.Groups = []v2.ServiceGroup{onEdge("203.0.113.0/25", "/32", "a")}
		labeled(&w.cluster.snapshot, map[string]string{"rack": "a"})
	}, func(w *world) {
		expect.Equal(t, "routes of a selected node", w.server.announces(), "203.0.113.1/32, 203.0.113.200/32")
		w.cluster.change(func(s *intent.Snapshot) { labeled(s, map[string]string{"rack": "b"}) })
		atOnce()
		expect.Equal(t, "routes without the label", w.server.announces(), "203.0.113.200/32")
		w.kernel.hold("kube-lb0", "203.0.113.1/32", "203.0.113.2/32", "203.0.113.200/32")
		atOnce()
		expect.Equal(t, "routes after an address came", w.server.announces(), "203.0.113.200/32")
		pass(fullCheck)
		if i := w.reports.last().Status.NetlinkImport; i.Elsewhere != 2 || i.TotalImported != 1 {
			t.Errorf("the status counts %d imported addresses and %d of other nodes, want 1 and 2", i.TotalImported, i.Elsewhere)
		}
		if c := w.reports.conditions(); strings.Contains(c, "imported addresses are not announced") {
			t.Errorf("the addresses of other nodes count as a failure: %s", c)
		}
		w.cluster.change(func(s *intent.Snapshot) { s.Groups = []v2.ServiceGroup{onEdge("203.0.113.0/25", "/32", "b")} })
		atOnce()
		expect.Equal(t, "routes with another selector", w.server.announces(), "203.0.113.1/32, 203.0.113.2/32, 203.0.113.200/32")
		w.cluster.change(func(s *intent.Snapshot) { labeled(s, nil) })
		atOnce()
	})
	inWorld(t, "", func(w *world) {
		w.speaker.Memory = memory
		w.kernel.hold("kube-lb0", "203.0.113.1/32", "203.0.113.200/32")
		w.cluster.missing = true
	}, func(w *world) {
		pass(2 * patience)
		expect.Equal(t, "routes of the next process without the API server", w.server.announces(), "203.0.113.200/32")
	})
}

func TestASharedRouteIsAnnouncedWhereOneGroupIs(t *testing.T) {
	low, high := onEdge("203.0.113.0-203.0.113.99", "/24", "a"), onEdge("203.0.113.100-203.0.113.199", "/24", "b")
	high.Name, high.UID = "high", "high"
	inWorld(t, oneNeighbor, func(w *world) {
		w.kernel.hold("kube-lb0", "203.0.113.1/24", "203.0.113.100/24")
		w.cluster.snapshot.Groups = []v2.ServiceGroup{low, high}
		labeled(&w.cluster.snapshot, map[string]string{"rack": "b"})
	}, func(w *world) {
		expect.Equal(t, "routes", w.server.announces(), "203.0.113.0/24")
		w.cluster.change(func(s *intent.Snapshot) { labeled(s, map[string]string{"rack": "c"}) })
		atOnce()
		expect.Equal(t, "routes of a node that no group selects", w.server.announces(), "")
	})
}

func TestAnAggregateStaysAsLongAsOneOfItsAddresses(t *testing.T) {
	group := onEdge("203.0.113.0/25", "/32", "a")
	group.Spec.BGP = &v2.RouteAttributes{Advertisements: []v2.Advertisement{{Peers: []v2.Peer{"192.0.2.1"}, Aggregation: "/24"}, {Peers: []v2.Peer{"192.0.2.2"}}}}
	const two = `{global: {asn: 65000}, neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 65001}}, {config: {neighborAddress: 192.0.2.2, peerAsn: 65001}}]}`
	inWorld(t, two, func(w *world) {
		w.cluster.snapshot.Groups = []v2.ServiceGroup{group}
		w.kernel.hold("kube-lb0", "203.0.113.1/32")
	}, func(w *world) {
		expect.Equal(t, "routes", w.server.marked(), "203.0.113.0/24 *, 203.0.113.1/32 *")
		expect.Equal(t, "neighbors of the two routes", w.server.named(), "192.0.2.1; 192.0.2.2")
		w.kernel.hold("kube-lb0", "203.0.113.1/32", "203.0.113.2/32", "198.51.100.1/32")
		atOnce()
		expect.Equal(t, "routes with more addresses", w.server.marked(), "198.51.100.1/32, 203.0.113.0/24 *, 203.0.113.1/32 *, 203.0.113.2/32 *")
		w.kernel.hold("kube-lb0", "203.0.113.2/32")
		atOnce()
		expect.Equal(t, "routes of the last address", w.server.marked(), "203.0.113.0/24 *, 203.0.113.2/32 *")
		w.sees(func(s *intent.Snapshot) {
			only := group.DeepCopy()
			only.Spec.BGP.Advertisements = only.Spec.BGP.Advertisements[:1]
			s.Groups = []v2.ServiceGroup{*only}
		})
		expect.Equal(t, "the aggregate alone", w.server.marked(), "203.0.113.0/24 *")
		pass(fullCheck)
		if c := w.reports.conditions(); strings.Contains(c, "imported addresses are not announced") {
			t.Errorf("an address in an aggregate counts as a failure: %s", c)
		}
		w.kernel.hold("kube-lb0")
		atOnce()
		expect.Equal(t, "routes without addresses", w.server.marked(), "")
	})
}
