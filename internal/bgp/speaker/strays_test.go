package speaker

import (
	"path/filepath"
	"testing"

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
