package intent

import (
	"fmt"
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

// advertising returns what a node in rack a reads of a group with both families, whose spec.bgp is the text.
func advertising(t *testing.T, bgp string, services ...ServiceFacts) Input {
	t.Helper()
	var of v2.RouteAttributes
	expect.NoError(t, yaml.UnmarshalStrict([]byte(bgp), &of))
	neighbor := func(address string) bgpv1.Neighbor {
		return bgpv1.Neighbor{Config: bgpv1.NeighborConfig{NeighborAddress: address}}
	}
	return Read(Snapshot{
		Node:     &NodeFacts{Node: peering.Node{Name: "n", Labels: map[string]string{"rack": "a"}}},
		Services: services,
		Groups: []v2.ServiceGroup{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "purelb", Name: "web"},
			Spec: v2.ServiceGroupSpec{BGP: &of, Remote: &v2.RemoteSpec{Pools: v2.Pools{
				V4Pool: &v2.AddressPool{Pool: "203.0.113.0/25", Subnet: "203.0.113.0/24", Aggregation: "/32"},
				V6Pool: &v2.AddressPool{Pool: "2001:db8::/120", Subnet: "2001:db8::/64", Aggregation: "/128"},
			}}},
		}},
		Configs: []bgpv1.BGPConfiguration{{Spec: bgpv1.BGPConfigurationSpec{Neighbors: []bgpv1.Neighbor{neighbor("192.0.2.1"), neighbor("192.0.2.2")}}}},
	}, "purelb", Input{})
}

// routesOf prints the routes to an address: their neighbors, and the attributes from advertisements.
func routesOf(in Input, address string) string {
	i := peering.Imported{Address: netip.PrefixFrom(netip.MustParseAddr(address), netip.MustParseAddr(address).BitLen())}
	here, _ := in.Attributes.AnnouncedHere([]peering.Imported{i}, "kube-lb0")
	var b strings.Builder
	for _, r := range peering.Routes(here, in.Attributes.Of, false) {
		fmt.Fprint(&b, r.Prefix)
		if m := r.Attributes.MED; m != nil {
			fmt.Fprintf(&b, " med %d", *m)
		}
		for _, of := range in.Attributes.Restricted {
			if !slices.Contains(r.Attributes.Marks, of.Mark) {
				continue
			}
			if len(of.Peers) > 0 {
				fmt.Fprintf(&b, " to %s", strings.Join(of.Peers, " "))
			}
			for _, one := range of.Advertisements {
				fmt.Fprintf(&b, " {%s", strings.Join(one.Peers, " "))
				if one.Prepend != nil {
					fmt.Fprintf(&b, " prepend %d", *one.Prepend)
				}
				if one.MED != nil {
					fmt.Fprintf(&b, " med %d", *one.MED)
				}
				b.WriteString("}")
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestAdvertisementsSayWhichRoutesANodeAnnounces(t *testing.T) {
	for _, tt := range []struct{ name, bgp, want string }{
		{"nothing", "{}", "203.0.113.1/32\n2001:db8::1/128\n"},
		{"attributes beside the list", "{med: 7}", "203.0.113.1/32 med 7\n2001:db8::1/128 med 7\n"},
		{"peers beside the list", "{peers: [192.0.2.1]}", "203.0.113.1/32 to 192.0.2.1\n2001:db8::1/128 to 192.0.2.1\n"},
		{"the same as one entry", "{advertisements: [{peers: [192.0.2.1]}]}", "203.0.113.1/32 to 192.0.2.1\n2001:db8::1/128 to 192.0.2.1\n"},
		{"a longer path for all", "{asPathPrepend: 2}", "203.0.113.1/32 {} { prepend 2}\n2001:db8::1/128 {} { prepend 2}\n"},
		{
			"an entry that sets something, and one that does not", "{med: 7, peers: [192.0.2.1], advertisements: [{asPathPrepend: 1}, {peers: [192.0.2.2], med: 9}]}",
			"203.0.113.1/32 med 7 to 192.0.2.1 192.0.2.2 {192.0.2.1 prepend 1} {192.0.2.2 med 9}\n2001:db8::1/128 med 7 to 192.0.2.1 192.0.2.2 {192.0.2.1 prepend 1} {192.0.2.2 med 9}\n",
		},
		{"the path beside the list is for neighbors whose entries set none", "{asPathPrepend: 3, advertisements: [{peers: [192.0.2.1], asPathPrepend: 0}, {}]}", "203.0.113.1/32 {192.0.2.1 prepend 0} {} { prepend 3}\n2001:db8::1/128 {192.0.2.1 prepend 0} {} { prepend 3}\n"},
		{
			"two masks for two neighbors", "{advertisements: [{peers: [192.0.2.1], aggregation: /24, aggregationV6: /64}, {peers: [192.0.2.2]}]}",
			"203.0.113.0/24 to 192.0.2.1\n203.0.113.1/32 to 192.0.2.2\n2001:db8::/64 to 192.0.2.1\n2001:db8::1/128 to 192.0.2.2\n",
		},
		{"the mask of the pool is no other one", "{advertisements: [{peers: [192.0.2.1], aggregation: /32}, {peers: [192.0.2.2]}]}", "203.0.113.1/32 to 192.0.2.1 192.0.2.2\n2001:db8::1/128 to 192.0.2.1 192.0.2.2\n"},
		{"one family", "{advertisements: [{aggregation: /24}]}", "203.0.113.0/24\n2001:db8::1/128\n"},
		{"entries of other nodes", "{advertisements: [{peers: [192.0.2.1], nodeSelector: {matchLabels: {rack: b}}}, {peers: [192.0.2.2], nodeSelector: {matchLabels: {rack: a}}}]}", "203.0.113.1/32 to 192.0.2.2\n2001:db8::1/128 to 192.0.2.2\n"},
		{"no entry of this node", "{advertisements: [{nodeSelector: {matchLabels: {rack: b}}}]}", ""},
		{"an entry has the nodes beside the list", "{nodeSelector: {matchLabels: {rack: b}}, advertisements: [{med: 7}]}", ""},
		{"or nodes of its own", "{nodeSelector: {matchLabels: {rack: b}}, advertisements: [{nodeSelector: {matchLabels: {rack: a}}}]}", "203.0.113.1/32\n2001:db8::1/128\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := advertising(t, tt.bgp)
			expect.Equal(t, "routes", routesOf(in, "203.0.113.1")+routesOf(in, "2001:db8::1"), tt.want)
			expect.Equal(t, "all marks have statements", in.Attributes.Enforces(in.Attributes.Of(netip.MustParseAddr("203.0.113.1")).Marks), true)
		})
	}
}

func TestMistakesInAdvertisementsAreReported(t *testing.T) {
	in := advertising(t, "{peers: [spine], advertisements: [{peers: [192.0.2.1]}, {peers: [leaf], communities: ['1:70000'], nodeSelector: {matchExpressions: [{key: rack, operator: Is}]}}]}")
	var got []string
	for key := range in.Complaints {
		got = append(got, key)
	}
	slices.Sort(got)
	expect.Equal(t, "the fields with mistakes", strings.Join(got, "\n"), "ServiceGroup web advertisements[1].communities[0]\nServiceGroup web advertisements[1].nodeSelector\nServiceGroup web advertisements[1].peers\nServiceGroup web peers")
}

func TestAServiceSetsAttributesInsteadOfAdvertisements(t *testing.T) {
	in := advertising(t, "{advertisements: [{peers: [192.0.2.1], med: 7, asPathPrepend: 1, aggregation: /24}, {med: 8}]}", ServiceFacts{
		Name: "default/web", Annotations: map[string]string{peering.AnnotationMED: "5"}, Addresses: []netip.Addr{netip.MustParseAddr("203.0.113.1")},
	})
	expect.Equal(t, "routes of the Service", routesOf(in, "203.0.113.1"), "203.0.113.0/24 med 5 to 192.0.2.1 {192.0.2.1 prepend 1}\n203.0.113.1/32 med 5 {}\n")
	expect.Equal(t, "routes of another", routesOf(in, "203.0.113.2"), "203.0.113.0/24 to 192.0.2.1 {192.0.2.1 prepend 1 med 7}\n203.0.113.2/32 { med 8}\n")
}

// Two pools of a group have different masks, and so have the same one for different advertisements.
func TestPoolsOfAGroupShareNoRestriction(t *testing.T) {
	for _, tt := range []struct{ name, bgp, want string }{
		{"the same number of bits in both families", "{advertisements: [{peers: [192.0.2.1], aggregation: /32, aggregationV6: /64}, {peers: [192.0.2.2], aggregation: /24, aggregationV6: /32}]}",
			"203.0.113.0/24 to 192.0.2.2\n203.0.113.1/32 to 192.0.2.1\n2001:db8::/32 to 192.0.2.2\n2001:db8::/64 to 192.0.2.1\n"},
		{"one mask here and two there", "{advertisements: [{peers: [192.0.2.1], aggregation: /32, aggregationV6: /64}, {peers: [192.0.2.2]}]}",
			"203.0.113.1/32 to 192.0.2.1 192.0.2.2\n2001:db8::/64 to 192.0.2.1\n2001:db8::1/128 to 192.0.2.2\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := advertising(t, tt.bgp)
			expect.Equal(t, "routes", routesOf(in, "203.0.113.1")+routesOf(in, "2001:db8::1"), tt.want)
		})
	}
}

// No node learns a route that another node of the cluster announces.
func TestWiderRoutesOfAdvertisementsAreTheClusters(t *testing.T) {
	own := peering.CoverageOf(advertising(t, "{advertisements: [{aggregation: /22, nodeSelector: {matchLabels: {rack: b}}}]}").Own)
	for text, want := range map[string]bool{"203.0.112.0/22": true, "203.0.113.1/32": true, "203.0.112.0/23": false, "2001:db8::1/128": true, "2001:db8::/64": false} {
		expect.Equal(t, text, own.Has(netip.MustParsePrefix(text)), want)
	}
}
