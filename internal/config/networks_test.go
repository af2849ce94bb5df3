package config

import (
	"net/netip"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/groups"
)

// network is a range that the cluster uses.
func network(t *testing.T, what, cidr string) groups.Network {
	t.Helper()
	r, err := addr.ParseBlock(cidr)
	if err != nil {
		t.Fatal(err)
	}
	return groups.Network{Range: r, What: what + " " + cidr}
}

func TestRangesInClusterNetworksAreRefused(t *testing.T) {
	services, pods := network(t, "the Service network", "10.96.0.0/16"), network(t, "the pod network", "10.244.1.0/24")
	services6 := network(t, "the Service network", "fd00:10:96::/112")
	for _, tt := range []struct {
		name, pool, subnet string
		networks           []groups.Network
		clusterIPs         []netip.Addr
		want               string
	}{
		{"elsewhere", "192.0.2.0/24", "192.0.2.0/24", []groups.Network{services, pods, services6}, nil, ""},
		{"inside", "10.96.0.0/24", "10.96.0.0/24", []groups.Network{services, pods}, nil,
			`Refused ClusterNetwork: "10.96.0.0/24" is inside the Service network 10.96.0.0/16, so no Service can have any of its addresses; choose a range that nothing else uses`},
		{"the same, of IPv6", "fd00:10:96::/112", "fd00:10:96::/112", []groups.Network{services, services6}, nil,
			`Refused ClusterNetwork: "fd00:10:96::/112" is inside the Service network fd00:10:96::/112, so no Service can have any of its addresses; choose a range that nothing else uses`},
		{"around", "10.0.0.0/8", "10.0.0.0/8", []groups.Network{services, pods}, nil,
			`Warning Adjusted: "10.0.0.0/8" overlaps the Service network 10.96.0.0/16 and 1 more, whose addresses are not handed out; choose a range that nothing else uses`},
		{"inside several networks together", "10.96.255.0-10.97.0.255", "10.96.0.0/15", []groups.Network{services, network(t, "the pod network", "10.97.0.0/24")}, nil,
			`Refused ClusterNetwork: "10.96.255.0-10.97.0.255" is inside the Service network 10.96.0.0/16 and 1 more, so no Service can have any of its addresses; choose a range that nothing else uses`},
		{"with a ClusterIP of an unknown network", "10.96.0.0/12", "10.96.0.0/12", nil, []netip.Addr{netip.MustParseAddr("10.96.0.1")},
			`Refused ClusterNetwork: "10.96.0.0/12" contains 10.96.0.1, the ClusterIP of the Service default/kubernetes, so it overlaps the Service network of the cluster; choose a range that nothing else uses`},
		{"without it", "10.112.0.0/12", "10.112.0.0/12", nil, []netip.Addr{netip.MustParseAddr("10.96.0.1")}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			group := func(name, r, subnet string) v2.ServiceGroup {
				one := &v2.AddressPool{Pool: v2.Range(r), Subnet: v2.Subnet(subnet)}
				pools := v2.Pools{V4Pool: one}
				if strings.Contains(r, ":") {
					pools = v2.Pools{V6Pool: one}
				}
				return v2.ServiceGroup{
					ObjectMeta: metav1.ObjectMeta{Namespace: "purelb", Name: name, UID: types.UID(name), Generation: 3},
					Spec:       v2.ServiceGroupSpec{Remote: &v2.RemoteSpec{Pools: pools}},
				}
			}
			c := For([]v2.ServiceGroup{group("group", tt.pool, tt.subnet), group("other", "203.0.113.0/24", "203.0.113.0/24")}, nil, "purelb").
				Beside(tt.networks, tt.clusterIPs)
			var got []string
			for _, p := range c.Problems {
				got = append(got, string(p.Severity)+" "+p.Reason+": "+p.String())
				if p.UID != "group" || p.Kind != KindServiceGroup || p.Name != "group" {
					t.Errorf("the problem names %s %s/%s", p.Kind, p.Namespace, p.Name)
				}
			}
			if text := strings.Join(got, "\n"); text != tt.want {
				t.Errorf("got  %s\nwant %s", text, tt.want)
			}
			_, used := c.Groups.Group("group")
			if refused := strings.HasPrefix(tt.want, "Refused"); used == refused {
				t.Errorf("the use of the group is %t", used)
			}
			if g, p, ok := c.Groups.GroupOf(netip.MustParseAddr("203.0.113.1")); !ok || g.Name != "other" || p.Text != "203.0.113.0/24" {
				t.Errorf("the address is not found in the other group, but in %s", g.Name)
			}
		})
	}
}
