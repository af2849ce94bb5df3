package intent

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/testing/expect"
)

func groupSaying(t *testing.T, bgp string) v2.ServiceGroup {
	var of v2.RouteAttributes
	if err := yaml.UnmarshalStrict([]byte(bgp), &of); err != nil {
		t.Fatal(err)
	}
	return v2.ServiceGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "purelb", Name: "web"},
		Spec: v2.ServiceGroupSpec{BGP: &of, Remote: &v2.RemoteSpec{Pools: v2.Pools{
			V4Pool: &v2.AddressPool{Pool: "203.0.113.0/24", Subnet: "203.0.113.0/24", Aggregation: "/32"},
			V6Pool: &v2.AddressPool{Pool: "2001:db8::/120", Subnet: "2001:db8::/64", Aggregation: "/128"},
		}}},
	}
}

// A group for all neighbors is deleted, or its pool shrinks. Its Service keeps the address.
func TestAddressesOfAnOpenGroupStayAnnounced(t *testing.T) {
	for _, bgp := range []string{"{asPathPrepend: 1}", "{advertisements: [{peers: [192.0.2.1], med: 9}, {}]}", "{advertisements: [{peers: [192.0.2.1], aggregation: /24}, {}]}", "{med: 7}"} {
		t.Run(bgp, func(t *testing.T) {
			s := Snapshot{Node: &NodeFacts{Node: peering.Node{Name: "n"}}, Groups: []v2.ServiceGroup{groupSaying(t, bgp)}, Managed: []ServiceFacts{}}
			in := Read(s, "purelb", Input{})
			if Restricts(s.Groups) {
				t.Fatal("restricts")
			}
			s.Groups[0].Spec.Remote.V4Pool.Pool = "203.0.113.0/25"
			small := Read(s, "purelb", in)
			expect.Equal(t, "shrunk", routesOf(small, "203.0.113.200"), "203.0.113.200/32\n")
			s.Groups = nil
			gone := Read(s, "purelb", in)
			expect.Equal(t, "gone", routesOf(gone, "203.0.113.200"), "203.0.113.200/32\n")
		})
	}
}

// A person removed the finalizer of a group. The records of Services say that it named neighbors or nodes.
func TestNoNodeAnnouncesTheAddressesOfARestrictedGroupThatIsGone(t *testing.T) {
	service := func(restricted bool, address string) ServiceFacts {
		return ServiceFacts{Name: "d/s", From: "web", Restricted: restricted, Addresses: []netip.Addr{netip.MustParseAddr(address)}}
	}
	other := groupSaying(t, "{peers: [192.0.2.1]}")
	other.Name, other.Spec.Remote.V4Pool.Pool, other.Spec.Remote.V4Pool.Subnet = "other", "198.51.100.0/24", "198.51.100.0/24"
	other.Spec.Remote.V6Pool = nil
	for name, groups := range map[string][]v2.ServiceGroup{"no group": nil, "another group": {other}} {
		t.Run(name, func(t *testing.T) {
			s := Snapshot{Node: &NodeFacts{Node: peering.Node{Name: "n"}}, Configs: []bgpv1.BGPConfiguration{{}}, Groups: groups, Managed: []ServiceFacts{}}
			s.Services = []ServiceFacts{service(true, "203.0.113.1"), service(true, "2001:db8::1")}
			if groups != nil {
				s.Managed = []ServiceFacts{service(true, "203.0.113.1"), service(true, "2001:db8::1"), service(false, "203.0.113.2")}
			}
			in := Read(s, "purelb", Input{})
			expect.Equal(t, "restricted", routesOf(in, "203.0.113.1")+routesOf(in, "2001:db8::1"), "")
			expect.Equal(t, "open", routesOf(in, "203.0.113.2"), "203.0.113.2/32\n")
			if said := in.Complaints["Service d/s status.loadBalancer"]; !strings.Contains(said, "group web") {
				t.Errorf("the Service has the complaint %q", said)
			}
			back := s
			back.Groups = append(slices.Clone(groups), groupSaying(t, "{peers: [192.0.2.1]}"))
			expect.Equal(t, "with the group again", routesOf(Read(back, "purelb", in), "203.0.113.1"), "203.0.113.1/32 to 192.0.2.1\n")
		})
	}
}

// The other family of a group with two masks.
func TestAStrayOfAnotherFamilyHasThePeersOfItsGroup(t *testing.T) {
	g := groupSaying(t, "{advertisements: [{peers: [192.0.2.1], aggregation: /24, aggregationV6: /64}, {peers: [192.0.2.2]}]}")
	g.Spec.Remote.V6Pool = nil
	s := Snapshot{Node: &NodeFacts{Node: peering.Node{Name: "n"}}, Groups: []v2.ServiceGroup{g},
		Managed: []ServiceFacts{{Name: "d/s", From: "web", Addresses: []netip.Addr{netip.MustParseAddr("2001:db8::1")}}}}
	in := Read(s, "purelb", Input{})
	expect.Equal(t, "routes", routesOf(in, "2001:db8::1"), "2001:db8::1/128 to 192.0.2.1 192.0.2.2\n")
}

// A refused group has the name of another one.
func TestARefusedGroupTakesNoStraysOfAnother(t *testing.T) {
	for _, second := range []string{"red", "a"} {
		t.Run(second, func(t *testing.T) {
			g := groupSaying(t, "{peers: [192.0.2.1]}")
			g.Spec.Remote.V4Pool.Pool = "203.0.113.0/25"
			g.Status.Conditions = []metav1.Condition{{Type: v2.ConditionAccepted, Status: metav1.ConditionTrue}}
			red := groupSaying(t, "{}")
			red.Name, red.UID, red.Spec.Name = second, "red", "web"
			red.Spec.Remote.V4Pool.Pool, red.Spec.Remote.V6Pool.Pool = "203.0.113.128/99", "2001:db8::f00/120"
			s := Snapshot{Node: &NodeFacts{Node: peering.Node{Name: "n"}}, Groups: []v2.ServiceGroup{g, red},
				Managed: []ServiceFacts{{Name: "d/s", From: "web", Addresses: []netip.Addr{netip.MustParseAddr("203.0.113.200")}}}}
			if second == "a" {
				s.Groups = []v2.ServiceGroup{red, g}
			}
			in := Read(s, "purelb", Input{})
			expect.Equal(t, "routes", routesOf(in, "203.0.113.200"), "203.0.113.200/32 to 192.0.2.1\n")
		})
	}
}
