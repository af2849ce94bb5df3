package speaker

import (
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/bgp/intent"
	"purelb.io/purelb/internal/testing/expect"
)

// servedBy returns Services with these addresses of a group.
func servedBy(group string, addresses ...string) []intent.ServiceFacts {
	all := []intent.ServiceFacts{}
	for _, a := range addresses {
		all = append(all, managed(group, a))
	}
	return all
}

// shrunk returns g with the lower half of its pool.
func shrunk(g v2.ServiceGroup) v2.ServiceGroup {
	g.Spec.Remote.V4Pool.Pool = "203.0.113.0/25"
	return g
}

// unreadable returns g with a pool that cannot be read.
func unreadable(g v2.ServiceGroup) v2.ServiceGroup {
	g.Spec.Remote.V4Pool.Pool = "203.0.113.0/99"
	return g
}

// After a group is refused or shrunk, no pool has some addresses. Their Services name the group.
func TestAddressesKeepTheNeighborsOfTheirGroup(t *testing.T) {
	leaving, other, half, renamed := namingPeers("192.0.2.1"), namingPeers(), shrunk(namingPeers()), namingPeers("192.0.2.1")
	deleted := metav1.Now()
	leaving.DeletionTimestamp = &deleted
	other.Name, other.UID, other.Spec.BGP = "green", "green", nil
	half.Name, half.UID, half.Spec.BGP = "green", "green", nil
	renamed.Name, renamed.UID = "red", "red"
	const both, neither = "203.0.113.1/32 *, 203.0.113.200/32 *", "203.0.113.1/32, 203.0.113.200/32"
	inWorld(t, oneNeighbor, func(w *world) {
		w.kernel.hold("kube-lb0", "203.0.113.1/32", "203.0.113.200/32")
		w.cluster.snapshot.Groups = []v2.ServiceGroup{namingPeers("192.0.2.1")}
		w.cluster.snapshot.Managed = servedBy("blue", "203.0.113.1", "203.0.113.200")
	}, func(w *world) {
		for _, step := range []struct {
			name   string
			groups []v2.ServiceGroup
			want   string
		}{
			{"the group", []v2.ServiceGroup{namingPeers("192.0.2.1")}, both},
			{"a refused group", []v2.ServiceGroup{unreadable(namingPeers("192.0.2.1"))}, both},
			{"a shrunk group", []v2.ServiceGroup{shrunk(namingPeers("192.0.2.1"))}, both},
			{"a group that is being deleted", []v2.ServiceGroup{leaving}, both},
			{"the same beside its successor", []v2.ServiceGroup{leaving, renamed}, both},
			{"a shrunk group for all neighbors", []v2.ServiceGroup{shrunk(namingPeers())}, neither},
			{"the group again", []v2.ServiceGroup{namingPeers("192.0.2.1")}, both},
			{"another group with the addresses", []v2.ServiceGroup{other}, neither},
			{"both, one of them refused", []v2.ServiceGroup{half, unreadable(namingPeers("192.0.2.1"))}, "203.0.113.1/32, 203.0.113.200/32 *"},
		} {
			w.sees(func(s *intent.Snapshot) { s.Groups = step.groups })
			expect.Equal(t, step.name, w.server.marked(), step.want)
			excepted := "192.0.2.1"
			switch {
			case step.want == neither:
				excepted = ""
			case len(step.groups) == 2 && step.want == both:
				excepted += "; " + excepted
			}
			expect.Equal(t, "neighbors of "+step.name, w.server.named(), excepted)
		}
	})
}

func TestAddressesStayOnTheNodesOfTheirGroup(t *testing.T) {
	inWorld(t, oneNeighbor, func(w *world) {
		w.kernel.hold("kube-lb0", "203.0.113.1/32", "203.0.113.200/32")
		w.cluster.snapshot.Groups = []v2.ServiceGroup{onEdge("203.0.113.0/24", "/32", "a")}
		w.cluster.snapshot.Managed = servedBy("blue", "203.0.113.1", "203.0.113.200")
		labeled(&w.cluster.snapshot, map[string]string{"rack": "b"})
	}, func(w *world) {
		expect.Equal(t, "routes of a node that is not selected", w.server.announces(), "")
		w.sees(func(s *intent.Snapshot) {
			s.Groups = []v2.ServiceGroup{unreadable(onEdge("203.0.113.0/25", "/32", "a"))}
		})
		expect.Equal(t, "routes of a refused group", w.server.announces(), "")
		w.sees(func(s *intent.Snapshot) { s.Groups = []v2.ServiceGroup{onEdge("203.0.113.0/25", "/32", "a")} })
		expect.Equal(t, "routes of a shrunk group", w.server.announces(), "")
		w.sees(func(s *intent.Snapshot) { labeled(s, map[string]string{"rack": "a"}) })
		expect.Equal(t, "routes of a node that got the label", w.server.announces(), "203.0.113.1/32, 203.0.113.200/32")
		w.sees(func(s *intent.Snapshot) { labeled(s, map[string]string{"rack": "b"}) })
		expect.Equal(t, "routes of a node that lost the label", w.server.announces(), "")
		w.sees(func(s *intent.Snapshot) { s.Groups = []v2.ServiceGroup{onEdge("203.0.113.0/25", "/32", "b")} })
		expect.Equal(t, "routes of a group that selects the node", w.server.announces(), "203.0.113.1/32, 203.0.113.200/32")
	})
}

// The allocator lets the group go after its last Service. The agent may still have the address.
func TestAddressesOfADeletedGroupAreNotAnnounced(t *testing.T) {
	for name, tt := range map[string]struct {
		group   v2.ServiceGroup
		address string
	}{
		"from a pool":           {namingPeers("192.0.2.1"), "203.0.113.1"},
		"from an IPAM system":   {netbox("192.0.2.1"), "198.51.100.1"},
		"from outside its pool": {shrunk(namingPeers("192.0.2.1")), "203.0.113.200"},
	} {
		t.Run(name, func(t *testing.T) {
			memory := filepath.Join(t.TempDir(), "input.json")
			start := func(groups ...v2.ServiceGroup) func(*world) {
				return func(w *world) {
					w.speaker.Memory = memory
					w.kernel.hold("kube-lb0", tt.address+"/32")
					w.kernel.addresses[0].Service = true
					w.cluster.snapshot.Groups, w.cluster.snapshot.Managed = groups, servedBy(tt.group.Name, tt.address)
				}
			}
			inWorld(t, oneNeighbor, start(namingPeers("192.0.2.1"), netbox("192.0.2.1")), func(w *world) {
				w.sees(func(s *intent.Snapshot) { s.Groups = []v2.ServiceGroup{tt.group} })
				expect.Equal(t, "routes", w.server.marked(), tt.address+"/32 *")
				w.sees(func(s *intent.Snapshot) { s.Managed = servedBy("") })
				w.sees(func(s *intent.Snapshot) { s.Groups = nil })
				expect.Equal(t, "routes after the Service and the group", w.server.marked(), "")
			})
			inWorld(t, "", func(w *world) {
				start()(w)
				w.cluster.missing = true
			}, func(w *world) {
				pass(2 * patience)
				expect.Equal(t, "routes of the next process without the API server", w.server.marked(), "")
			})
		})
	}
}

// A group was for all neighbors when it was deleted. Its Services keep their addresses. The file of an
// earlier process does not know that.
func TestAFileDoesNotWithholdAddressesOfAGroupThatChanged(t *testing.T) {
	memory := filepath.Join(t.TempDir(), "input.json")
	for _, groups := range [][]v2.ServiceGroup{{namingPeers("192.0.2.1")}, nil} {
		inWorld(t, oneNeighbor, func(w *world) {
			w.speaker.Memory = memory
			w.kernel.hold("kube-lb0", "203.0.113.1/32")
			w.cluster.snapshot.Groups = groups
		}, func(w *world) {
			want := "203.0.113.1/32"
			if groups != nil {
				want += " *"
			}
			expect.Equal(t, "routes", w.server.marked(), want)
		})
	}
}

// A refused group of an IPAM system still says which neighbors get its addresses.
func TestManagedAddressesKeepTheNeighborsOfARefusedGroup(t *testing.T) {
	wrong := netbox("192.0.2.1")
	wrong.Spec.Netbox.URL = "netbox"
	inWorld(t, oneNeighbor, func(w *world) {
		w.kernel.hold("kube-lb0", "198.51.100.1/32")
		w.cluster.snapshot.Groups, w.cluster.snapshot.Managed = []v2.ServiceGroup{netbox("192.0.2.1")}, servedBy("netbox", "198.51.100.1")
	}, func(w *world) {
		expect.Equal(t, "routes", w.server.marked(), "198.51.100.1/32 *")
		w.sees(func(s *intent.Snapshot) { s.Groups = []v2.ServiceGroup{wrong} })
		expect.Equal(t, "routes of a refused group", w.server.marked(), "198.51.100.1/32 *")
		w.sees(func(s *intent.Snapshot) { s.Groups = []v2.ServiceGroup{netbox()} })
		expect.Equal(t, "routes of the group for all neighbors", w.server.marked(), "198.51.100.1/32")
	})
}
