package intent

import (
	"net/netip"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

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

// The Services are not known. A route keeps the mark of a group that is gone, and nothing enforces it.
func TestKeptMarksKeepTheirStatements(t *testing.T) {
	s := Snapshot{Node: &NodeFacts{Node: peering.Node{Name: "n"}}, Groups: []v2.ServiceGroup{groupSaying(t, "{peers: [192.0.2.1]}")}}
	in := Read(s, "purelb", Input{})
	s.Groups = nil
	after := Read(s, "purelb", in)
	a := netip.MustParseAddr("203.0.113.1")
	expect.Equal(t, "marks", len(after.Attributes.Of(a).Marks), 1)
	expect.Equal(t, "enforced", after.Attributes.Enforces(after.Attributes.Of(a).Marks), true)
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
