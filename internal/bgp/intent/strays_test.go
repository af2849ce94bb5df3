package intent

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/testing/expect"
)

func groupSaying(t *testing.T, bgp string) v2.ServiceGroup {
	var of v2.RouteAttributes
	expect.NoError(t, yaml.UnmarshalStrict([]byte(bgp), &of))
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

// After a group is refused or shrunk, no pool has some addresses. Their Services name the group.
func TestAddressesKeepTheNeighborsAndNodesOfTheirGroup(t *testing.T) {
	const (
		one, all, edge         = "{peers: [192.0.2.1]}", "{}", "{nodeSelector: {matchLabels: {rack: a}}}"
		whole, half, wrong     = "203.0.113.0/24", "203.0.113.0/25", "203.0.113.0/99"
		both, neither, nowhere = "203.0.113.1/32 to 192.0.2.1\n203.0.113.200/32 to 192.0.2.1\n", "203.0.113.1/32\n203.0.113.200/32\n", ""
	)
	group := func(name, pool, bgp string) v2.ServiceGroup {
		g := groupSaying(t, bgp)
		g.Name, g.UID, g.Spec.Remote.V6Pool, g.Spec.Remote.V4Pool.Pool = name, types.UID(name), nil, v2.Range(pool)
		return g
	}
	leaving, deleted := group("web", whole, one), metav1.Now()
	leaving.DeletionTimestamp = &deleted
	netbox := func(url, bgp string) v2.ServiceGroup {
		g := group("web", whole, bgp)
		g.Spec.Remote, g.Spec.Netbox = nil, &v2.NetboxSpec{URL: url, Tenant: "k8s"}
		return g
	}
	for _, tt := range []struct {
		name   string
		groups []v2.ServiceGroup
		want   string
	}{
		{"the group", []v2.ServiceGroup{group("web", whole, one)}, both},
		{"a refused group", []v2.ServiceGroup{group("web", wrong, one)}, both},
		{"a shrunk group", []v2.ServiceGroup{group("web", half, one)}, both},
		{"a group that is being deleted", []v2.ServiceGroup{leaving}, both},
		{"the same beside its successor", []v2.ServiceGroup{leaving, group("red", whole, one)}, both},
		{"a shrunk group for all neighbors", []v2.ServiceGroup{group("web", half, all)}, neither},
		{"another group with the addresses", []v2.ServiceGroup{group("green", whole, all)}, neither},
		{"both, one of them refused", []v2.ServiceGroup{group("green", half, all), group("web", wrong, one)}, "203.0.113.1/32\n203.0.113.200/32 to 192.0.2.1\n"},
		{"a group of other nodes", []v2.ServiceGroup{group("web", whole, edge)}, nowhere},
		{"a refused group of other nodes", []v2.ServiceGroup{group("web", wrong, edge)}, nowhere},
		{"a shrunk group of other nodes", []v2.ServiceGroup{group("web", half, edge)}, nowhere},
		{"a shrunk group of this node", []v2.ServiceGroup{group("web", half, strings.Replace(edge, "rack: a", "rack: b", 1))}, neither},
		{"a group of an IPAM system", []v2.ServiceGroup{netbox("https://netbox.example", one)}, both},
		{"a refused group of an IPAM system", []v2.ServiceGroup{netbox("netbox", one)}, both},
		{"a group of an IPAM system for all neighbors", []v2.ServiceGroup{netbox("https://netbox.example", all)}, neither},
	} {
		s := Snapshot{Node: &NodeFacts{Node: peering.Node{Name: "n", Labels: map[string]string{"rack": "b"}}}, Groups: tt.groups}
		for _, address := range []string{"203.0.113.1", "203.0.113.200"} {
			s.Managed = append(s.Managed, ServiceFacts{Name: "d/" + address, From: "web", Addresses: []netip.Addr{netip.MustParseAddr(address)}})
		}
		in := Read(s, "purelb", Input{})
		expect.Equal(t, tt.name, routesOf(in, "203.0.113.1")+routesOf(in, "203.0.113.200"), tt.want)
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
