package speaker

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/bgp/intent"
	"purelb.io/purelb/internal/bgp/speaker/cluster"
	"purelb.io/purelb/internal/testing/expect"
)

// After a group is refused, deleted or shrunk, some addresses are in no usable group. The speaker
// announces them only to the neighbors that the group named.
func TestAddressesKeepTheNeighborsOfTheirGroup(t *testing.T) {
	shrunk, open, other := namingPeers("192.0.2.1"), namingPeers(), namingPeers("192.0.2.1")
	shrunk.Spec.Remote.V4Pool.Pool = "203.0.113.0/25"
	open.Spec.Remote.V4Pool.Pool = "203.0.113.0/25"
	other.Name, other.UID, other.Spec.BGP = "green", "green", nil
	wrong := namingPeers("192.0.2.1")
	wrong.Spec.Remote.V4Pool.Pool = "203.0.113.0/99"
	const both, neither = "203.0.113.1/32 *, 203.0.113.200/32 *", "203.0.113.1/32, 203.0.113.200/32"
	const whole = "203.0.113.0-203.0.113.255"
	memory := filepath.Join(t.TempDir(), "input.json")
	inWorld(t, oneNeighbor, func(w *world) {
		w.speaker.Memory = memory
		w.kernel.hold("kube-lb0", "203.0.113.1/32", "203.0.113.200/32")
		w.cluster.snapshot.Groups = []v2.ServiceGroup{namingPeers("192.0.2.1")}
	}, func(w *world) {
		for _, step := range []struct {
			name           string
			groups         []v2.ServiceGroup
			want, recorded string
		}{
			{"the group", []v2.ServiceGroup{namingPeers("192.0.2.1")}, both, ""},
			{"a refused group", []v2.ServiceGroup{wrong}, both, whole},
			{"a shrunk group", []v2.ServiceGroup{shrunk}, both, "203.0.113.128-203.0.113.255"},
			{"a deleted group", nil, both, "203.0.113.0-203.0.113.127 203.0.113.128-203.0.113.255"},
			{"a shrunk group for all neighbors", []v2.ServiceGroup{open}, neither, ""},
			{"the group again", []v2.ServiceGroup{namingPeers("192.0.2.1")}, both, ""},
			{"no group any more", nil, both, whole},
			{"another group with the addresses", []v2.ServiceGroup{other}, neither, ""},
			{"the group once more", []v2.ServiceGroup{shrunk}, "203.0.113.1/32 *, 203.0.113.200/32", ""},
		} {
			w.sees(func(s *intent.Snapshot) { s.Groups = step.groups })
			expect.Equal(t, step.name, w.server.marked(), step.want)
			excepted := "192.0.2.1/32"
			if step.want == neither {
				excepted = ""
			}
			expect.Equal(t, "neighbors of "+step.name, w.server.excepted(), excepted)
			var recorded []string
			for _, one := range w.reports.last().Status.GroupBounds {
				recorded = append(recorded, one.Addresses...)
			}
			expect.Equal(t, "addresses in the status of "+step.name, strings.Join(recorded, " "), step.recorded)
		}
		w.sees(func(s *intent.Snapshot) { s.Groups = nil })
	})
	inWorld(t, oneNeighbor, func(w *world) {
		w.speaker.Memory = memory
		w.kernel.hold("kube-lb0", "203.0.113.1/32", "203.0.113.200/32")
	}, func(w *world) {
		expect.Equal(t, "routes of the next process", w.server.marked(), "203.0.113.1/32 *, 203.0.113.200/32")
	})
}

func TestAddressesStayOnTheNodesOfTheirGroup(t *testing.T) {
	inWorld(t, oneNeighbor, func(w *world) {
		w.kernel.hold("kube-lb0", "203.0.113.1/32", "203.0.113.200/32")
		w.cluster.snapshot.Groups = []v2.ServiceGroup{onEdge("203.0.113.0/24", "/32", "a")}
		labeled(&w.cluster.snapshot, map[string]string{"rack": "b"})
	}, func(w *world) {
		expect.Equal(t, "routes of a node that is not selected", w.server.announces(), "")
		w.sees(func(s *intent.Snapshot) { s.Groups = []v2.ServiceGroup{onEdge("203.0.113.0/25", "/32", "a")} })
		expect.Equal(t, "routes of a shrunk group", w.server.announces(), "")
		w.sees(func(s *intent.Snapshot) { s.Groups = nil })
		expect.Equal(t, "routes of a deleted group", w.server.announces(), "")
		w.sees(func(s *intent.Snapshot) { labeled(s, map[string]string{"rack": "a"}) })
		expect.Equal(t, "routes of a node that got the label", w.server.announces(), "203.0.113.1/32, 203.0.113.200/32")
		w.sees(func(s *intent.Snapshot) { labeled(s, map[string]string{"rack": "b"}) })
		expect.Equal(t, "routes of a node that lost the label", w.server.announces(), "")
		w.sees(func(s *intent.Snapshot) { s.Groups = []v2.ServiceGroup{onEdge("203.0.113.0/25", "/32", "b")} })
		expect.Equal(t, "routes of a group that selects the node", w.server.announces(), "203.0.113.1/32, 203.0.113.200/32")
	})
}

func TestManagedAddressesKeepTheNeighborsOfTheirGroup(t *testing.T) {
	usable, refused := netbox("192.0.2.1"), netbox("192.0.2.1")
	refused.Spec.Netbox.URL = "netbox"
	inWorld(t, oneNeighbor, func(w *world) {
		w.kernel.hold("kube-lb0", "198.51.100.1/32", "198.51.100.2/32")
		w.cluster.snapshot.Groups = []v2.ServiceGroup{usable}
		w.cluster.snapshot.Managed = []intent.ServiceFacts{managed("netbox", "198.51.100.1")}
	}, func(w *world) {
		expect.Equal(t, "routes", w.server.marked(), "198.51.100.1/32 *")
		w.sees(func(s *intent.Snapshot) { s.Groups = []v2.ServiceGroup{refused} })
		expect.Equal(t, "routes of a refused group", w.server.marked(), "198.51.100.1/32 *")
		w.sees(func(s *intent.Snapshot) { s.Managed = append(s.Managed, managed("netbox", "198.51.100.2")) })
		expect.Equal(t, "routes with a Service that was seen late", w.server.marked(), "198.51.100.1/32 *, 198.51.100.2/32 *")
		w.sees(func(s *intent.Snapshot) { s.Groups, s.Managed = nil, nil })
		expect.Equal(t, "routes of a deleted group", w.server.marked(), "198.51.100.1/32 *, 198.51.100.2/32 *")
		expect.Equal(t, "neighbors", w.server.excepted(), "192.0.2.1/32")
		w.sees(func(s *intent.Snapshot) { s.Groups = []v2.ServiceGroup{netbox()} })
		expect.Equal(t, "routes of the group for all neighbors", w.server.marked(), "198.51.100.1/32, 198.51.100.2/32")
	})
}

// A pod of the speaker starts after a group was deleted. It has no file of an earlier process.
func TestANewPodKnowsTheBoundsOfADeletedGroup(t *testing.T) {
	edge, elsewhere, outside := namingPeers("192.0.2.1"), onEdge("198.51.100.0/24", "/32", "b"), netbox("192.0.2.1")
	elsewhere.Name, elsewhere.UID, elsewhere.Spec.Remote.V4Pool.Subnet = "green", "green", "198.51.100.0/24"
	const routes = "192.0.2.99/32 *, 203.0.113.1/32 *, 203.0.113.200/32 *"
	hold := func(w *world) {
		w.kernel.hold("kube-lb0", "203.0.113.1/32", "203.0.113.200/32", "198.51.100.1/32", "192.0.2.99/32")
		w.cluster.snapshot.Managed = []intent.ServiceFacts{managed("netbox", "192.0.2.99")}
	}
	var recorded []bgpv1.GroupBounds
	inWorld(t, oneNeighbor, func(w *world) {
		hold(w)
		labeled(&w.cluster.snapshot, map[string]string{"rack": "a"})
		w.cluster.snapshot.Groups = []v2.ServiceGroup{edge, elsewhere, outside}
	}, func(w *world) {
		expect.Equal(t, "routes", w.server.marked(), routes)
		if bounds := w.reports.last().Status.GroupBounds; len(bounds) > 0 {
			t.Errorf("the status has bounds of groups that exist: %v", bounds)
		}
		w.sees(func(s *intent.Snapshot) { s.Groups = nil })
		expect.Equal(t, "routes of deleted groups", w.server.marked(), routes)
		recorded = w.reports.last().Status.GroupBounds
	})
	for _, rack := range []string{"a", "b"} {
		inWorld(t, oneNeighbor, func(w *world) {
			hold(w)
			labeled(&w.cluster.snapshot, map[string]string{"rack": rack})
			w.cluster.snapshot.Bounds = recorded
		}, func(w *world) {
			all := routes
			if rack == "b" {
				all = "192.0.2.99/32 *, 198.51.100.1/32, 203.0.113.1/32 *, 203.0.113.200/32 *"
			}
			expect.Equal(t, "routes of a new pod in rack "+rack, w.server.marked(), all)
			expect.Equal(t, "neighbors", w.server.excepted(), "192.0.2.1/32; 192.0.2.1/32")
			if diff := cmp.Diff(recorded, w.reports.last().Status.GroupBounds); diff != "" {
				t.Errorf("the bounds that the new pod records (-want +got)\n%s", diff)
			}
			w.sees(func(s *intent.Snapshot) { s.Groups = []v2.ServiceGroup{namingPeers()} })
			expect.Equal(t, "routes after the group came back for all neighbors", w.server.marked(), strings.ReplaceAll(all, "1/32 *, 203.0.113.200/32 *", "1/32, 203.0.113.200/32"))
		})
	}
}

// A group was made and deleted while this process did not run. Its file does not have the group.
func TestAFileWithoutAGroupDoesNotHideItsBounds(t *testing.T) {
	edge := bgpv1.GroupBounds{Group: "purelb/blue", Addresses: []string{"203.0.113.0-203.0.113.255"}, Peers: []string{"192.0.2.1"}}
	for _, away := range []bool{false, true} {
		memory := filepath.Join(t.TempDir(), "input.json")
		inWorld(t, oneNeighbor, func(w *world) { w.speaker.Memory = memory }, func(*world) {})
		inWorld(t, oneNeighbor, func(w *world) {
			w.speaker.Memory = memory
			w.kernel.hold("kube-lb0", "203.0.113.1/32")
			w.cluster.snapshot.Bounds, w.cluster.missing = []bgpv1.GroupBounds{edge}, away
		}, func(w *world) {
			pass(2 * patience)
			w.sees(func(*intent.Snapshot) {})
			expect.Equal(t, "routes", w.server.marked(), "203.0.113.1/32 *")
			expect.Equal(t, "neighbors", w.server.excepted(), "192.0.2.1/32")
		})
	}
}

// The file has bounds that the group had before. It also has the communities of the group.
func TestTheFileKeepsTheAttributesOfADeletedGroup(t *testing.T) {
	memory := filepath.Join(t.TempDir(), "input.json")
	g := namingPeers("192.0.2.2")
	g.Spec.BGP.Communities = []v2.Community{"65000:7"}
	inWorld(t, oneNeighbor, func(w *world) {
		w.speaker.Memory = memory
		w.cluster.snapshot.Groups = []v2.ServiceGroup{g}
	}, func(*world) {})
	inWorld(t, oneNeighbor, func(w *world) {
		w.speaker.Memory = memory
		w.kernel.hold("kube-lb0", "203.0.113.1/32")
		w.cluster.snapshot.Bounds = []bgpv1.GroupBounds{{Group: g.Name, Addresses: []string{"203.0.113.0-203.0.113.255"}, Peers: []string{"192.0.2.1"}}}
	}, func(w *world) {
		expect.Equal(t, "routes", w.server.marked(), "203.0.113.1/32 *")
		expect.Equal(t, "attributes", w.server.announces(), "203.0.113.1/32 65000:7")
		expect.Equal(t, "neighbors", w.server.excepted(), "192.0.2.1/32")
	})
}

// A status has the bounds of 100 groups. A new pod that reads them does not know which neighbors get
// the addresses of further groups, so none gets them. The file of an earlier process knows all groups.
func TestAStatusHasTheBoundsOfAHundredGroups(t *testing.T) {
	var all []bgpv1.GroupBounds
	for i := range 101 {
		all = append(all, bgpv1.GroupBounds{Group: fmt.Sprintf("group-%03d", i), Addresses: []string{fmt.Sprintf("203.0.113.%d-203.0.113.%[1]d", i)}, Peers: []string{"192.0.2.1"}})
	}
	memory := filepath.Join(t.TempDir(), "input.json")
	for _, step := range []struct {
		name, memory, last string // last is the neighbors of the last group
	}{
		{"the process that knows all groups", memory, "192.0.2.1/32"},
		{"the next process of its pod", memory, "192.0.2.1/32"},
		{"a new pod", "", ""},
		{"another new pod", "", ""},
	} {
		inWorld(t, oneNeighbor, func(w *world) {
			w.speaker.Memory, w.cluster.snapshot.Bounds = step.memory, all
			w.kernel.hold("kube-lb0", "203.0.113.0/32", "203.0.113.100/32")
		}, func(w *world) {
			all = w.reports.last().Status.GroupBounds
			if last := all[len(all)-1]; len(all) != 100 || strings.Join(last.Addresses, " ") != "203.0.113.99-203.0.113.100" {
				t.Errorf("the status of %s has the bounds of %d groups, and the last is %v", step.name, len(all), last)
			}
			expect.Equal(t, "routes of "+step.name, w.server.marked(), "203.0.113.0/32 *, 203.0.113.100/32 *")
			expect.Equal(t, "neighbors of the first group, of "+step.name, w.server.neighborsOf("203.0.113.0"), "192.0.2.1/32")
			expect.Equal(t, "neighbors of the last group, of "+step.name, w.server.neighborsOf("203.0.113.100"), step.last)
		})
	}
}

// neighborsOf prints the neighbors that get the route to an address of a group.
func (s *fakeServer) neighborsOf(address string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	lists := map[string][]string{}
	for _, set := range s.state.Sets {
		lists[set.Name] = set.List
	}
	for key, r := range s.routes {
		for _, st := range s.state.Export.Statements {
			of, to := st.If.LargeCommunities, st.If.Neighbors
			if strings.HasPrefix(key.String(), address+"/") && of != nil && slices.Equal(lists[of.Name], r.Attributes.Marks) && to != nil {
				return strings.Join(lists[to.Name], " ")
			}
		}
	}
	return ""
}

// Only its Service tells that an address was from a deleted group.
func TestAddressesWaitForTheServicesOfADeletedGroup(t *testing.T) {
	inWorld(t, oneNeighbor, func(w *world) {
		w.kernel.hold("kube-lb0", "192.0.2.99/32", "192.0.2.100/32")
		w.cluster.snapshot.Bounds = []bgpv1.GroupBounds{{Group: "netbox", AllocatedFrom: "netbox", Peers: []string{"192.0.2.1"}}}
	}, func(w *world) {
		expect.Equal(t, "routes before the Services are known", w.server.marked(), "")
		w.sees(func(s *intent.Snapshot) {
			s.Managed = []intent.ServiceFacts{managed("netbox", "192.0.2.99"), managed("other", "192.0.2.100")}
		})
		expect.Equal(t, "routes", w.server.marked(), "192.0.2.100/32, 192.0.2.99/32 *")
		w.sees(func(s *intent.Snapshot) {
			s.Managed = []intent.ServiceFacts{managed("other", "192.0.2.99"), managed("other", "192.0.2.100")}
		})
		expect.Equal(t, "routes after another group got the address", w.server.marked(), "192.0.2.100/32, 192.0.2.99/32")
	})
}

// The first node has recorded the bounds of a deleted group in its BGPNodeStatus. The speaker of that
// node starts again. So does the speaker of a node that was off when there was the group. The speaker
// of a third node starts for the first time.
func TestBoundsOfGroupsAreReadFromNodeStatuses(t *testing.T) {
	c := newInstall(t)
	old, away, fresh := c.node("old"), c.node("away"), c.node("fresh")
	bounds := []bgpv1.GroupBounds{{Group: "purelb/gone-of-" + c.namespace, Addresses: []string{"203.0.113.0-203.0.113.255"}, Peers: []string{"192.0.2.1"}}}
	c.report(old, bgpv1.BGPNodeStatusStatus{GroupBounds: bounds})
	c.report(away, bgpv1.BGPNodeStatusStatus{})
	c.configure("default", `{global: {asn: 65000}, neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 65001}}]}`)
	for _, node := range []string{old, away, fresh} {
		m := c.speak(node, nil)
		m.kernel.hold("kube-lb0", "203.0.113.1/32")
		eventuallyIs(t, "routes", "203.0.113.1/32 *", m.server.marked)
		eventuallyIs(t, "the status", bounds[0].Group, func() string {
			for _, b := range c.nodeStatus(node).Status.GroupBounds {
				return b.Group
			}
			return ""
		})
	}
}

// report makes the BGPNodeStatus of a node.
func (c install) report(node string, status bgpv1.BGPNodeStatusStatus) {
	c.t.Helper()
	object := bgpv1.BGPNodeStatus{ObjectMeta: metav1.ObjectMeta{Name: node}}
	if err := c.clients.BGP.Post().Resource(cluster.NodeStatuses).Body(&object).Do(c.t.Context()).Into(&object); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		_ = c.clients.BGP.Delete().Resource(cluster.NodeStatuses).Name(node).Do(context.Background()).Error()
	})
	object.Status = status
	object.Status.NodeName = node
	if err := c.clients.BGP.Put().Resource(cluster.NodeStatuses).Name(node).SubResource("status").Body(&object).Do(c.t.Context()).Error(); err != nil {
		c.t.Fatal(err)
	}
}
