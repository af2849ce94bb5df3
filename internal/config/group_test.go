package config_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/testing/expect"
)

func TestGroupsMayWithdrawIdleAddresses(t *testing.T) {
	yes := v2.Withdrawal{WithdrawWithoutEndpoints: true}
	pools := v2.Pools{V4Pool: &v2.AddressPool{Pool: "192.0.2.0/25", Subnet: "192.0.2.0/24"}}
	for name, spec := range map[string]v2.ServiceGroupSpec{
		"local":    {Local: &v2.LocalSpec{Pools: pools, Withdrawal: yes}},
		"remote":   {Remote: &v2.RemoteSpec{Pools: pools, Withdrawal: yes}},
		"netbox":   {Netbox: &v2.NetboxSpec{URL: "https://netbox/", Tenant: "t", Withdrawal: yes}},
		"external": {External: &v2.ExternalSpec{Provider: "ipam", Announce: "remote", Withdrawal: yes}},
		"not":      {Remote: &v2.RemoteSpec{Pools: pools}},
	} {
		g := v2.ServiceGroup{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: name}, Spec: spec}
		want := name != "not"
		c := config.For([]v2.ServiceGroup{g}, nil, home)
		if groups := c.Groups.Usable; len(groups) != 1 || groups[0].WithdrawIdle != want {
			t.Errorf("%s is read as %+v, %v", name, groups, c.Problems)
		}
	}
}

func TestGroupsMayPreferNodes(t *testing.T) {
	local := &v2.LocalSpec{Pools: v2.Pools{V4Pool: &v2.AddressPool{Pool: "192.0.2.0/25", Subnet: "192.0.2.0/24"}}}
	local.Nodes = []v2.NodeWeight{
		{NodeSelector: map[string]string{"rack": "a"}},
		{NodeSelector: map[string]string{"rack": "a", "disk": "fast"}, Weight: 10},
	}
	local.RebalanceAfter = "10m"
	c := config.For([]v2.ServiceGroup{{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "web"}, Spec: v2.ServiceGroupSpec{Local: local}}}, nil, home)
	if len(c.Problems) > 0 || c.Groups.Usable[0].RebalanceAfter != 10*time.Minute {
		t.Fatalf("%+v, %v", c.Groups.Usable, c.Problems)
	}
	for want, labels := range map[string]map[string]string{
		"map[]":       {"rack": "b", "disk": "fast"},
		"map[web:1]":  {"rack": "a", "disk": "slow"},
		"map[web:10]": {"rack": "a", "disk": "fast"},
	} {
		expect.Equal(t, fmt.Sprint(labels), fmt.Sprint(c.Groups.WeightsOf(labels)), want)
	}
}

func TestGroupsOfEveryGeneration(t *testing.T) {
	check(t, ofGroups, []example{
		{"the flat form", `localaddressrange: {name: localaddrange, subnet: 192.168.151.0/24, pool: 192.168.151.240-192.168.151.250, aggregation: default}`,
			`group localaddressrange Auto 192.168.151.240-192.168.151.250/24 alias localaddrange`},
		{"the flat form without a name, of IPv6", `a: {subnet: "2001:db8::/64", pool: "2001:db8::10/124"}`,
			`group a Auto 2001:db8::10-2001:db8::1f/64`},
		{"a single range", `a: {local: {announce: auto, subnet: 192.0.2.0/24, pool: 192.0.2.16/28, aggregation: /32}}`,
			`group a Auto 192.0.2.16-192.0.2.31/32`},
		{"single ranges of both families, IPv4 first",
			`a: {local: {announce: auto, subnet: 192.0.2.0/24, pool: 192.0.2.16/28, v6pool: {subnet: "2001:db8::/64", pool: "2001:db8::/64"}}}`,
			`group a Auto 192.0.2.16-192.0.2.31/24 2001:db8::-2001:db8::ffff:ffff:ffff:ffff/64`},
		{"lists before single ranges, and IPv4 before IPv6",
			`a: {local: {v6pool: {subnet: "2001:db8::/64", pool: "2001:db8::1-2001:db8::9"}, v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.1-192.0.2.9}, ` +
				`v6pools: [{subnet: "2001:db8:1::/64", pool: "2001:db8:1::20/124"}, {subnet: "2001:db8:1::/64", pool: "2001:db8:1::10/124"}], ` +
				`v4pools: [{subnet: 198.51.100.0/24, pool: 198.51.100.128/25}, {subnet: 198.51.100.0/24, pool: 198.51.100.0/25}]}}`,
			`group a Local 198.51.100.128-198.51.100.255/24 198.51.100.0-198.51.100.127/24 192.0.2.1-192.0.2.9/24 ` +
				`2001:db8:1::20-2001:db8:1::2f/64 2001:db8:1::10-2001:db8:1::1f/64 2001:db8::1-2001:db8::9/64`},
		{"a CIDR starts at the written address",
			`a: {local: {v4pools: [{subnet: 192.0.2.0/24, pool: 192.0.2.100/24}], v6pools: [{subnet: "fc00:270:154::/64", pool: "fc00:270:154:0:8100::4/64"}]}}`,
			`group a Local 192.0.2.100-192.0.2.255/24 fc00:270:154:0:8100::4-fc00:270:154:0:ffff:ffff:ffff:ffff/64
			 Warning Adjusted a: spec.local.v4pools[0].pool: "192.0.2.100/24" is read as 192.0.2.100-192.0.2.254, 155 addresses, and not as 192.0.2.0/24, 254 addresses; write the one that is meant
			 Warning Adjusted a: spec.local.v6pools[0].pool: "fc00:270:154:0:8100::4/64" is read as fc00:270:154:0:8100::4-fc00:270:154:0:ffff:ffff:ffff:ffff, 9151314442816847868 addresses, and not as fc00:270:154::/64, 18446744073709551615 addresses; write the one that is meant`},
		{"a remote group with routes per address",
			`a: {remote: {v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.0/24, aggregation: /32}, v6pool: {subnet: "2001:db8::/64", pool: "2001:db8::/120", aggregation: /128}}}`,
			`group a Remote 192.0.2.0-192.0.2.255/32 2001:db8::-2001:db8::ff/128`},
		{"without duplicate address detection", `a: {local: {skipIPv6DAD: true, v6pool: {subnet: "2001:db8::/64", pool: "2001:db8::/120"}}}`,
			`group a Local 2001:db8::-2001:db8::ff/64 skipIPv6DAD`},
		{"side by side", `a: {remote: {v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.0/25}}}
			 b: {remote: {v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.128/25}, v6pool: {subnet: "::/0", pool: "2001:db8::1-2001:db8::1", aggregation: /128}}}`,
			`group a Remote 192.0.2.0-192.0.2.127/24
			 group b Remote 192.0.2.128-192.0.2.255/24 2001:db8::1-2001:db8::1/128`},
		{name: "none", text: ``, want: ``},
	})
}

func TestInvalidGroups(t *testing.T) {
	check(t, ofGroups, []example{
		{"no kind", `a: {}`,
			`Refused ParseError a: spec: exactly one of local, remote, netbox or external must be specified (or the flat form: subnet and pool), and none is; exactly one must be, so add one`},
		{"two kinds", `a: {local: {v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.0/24}}, remote: {v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.0/24}}}`,
			`Refused ParseError a: spec: exactly one of local, remote, netbox or external must be specified (or the flat form: subnet and pool), and local and remote are; exactly one must be, so remove the others`},
		{"a kind and the flat form", `a: {external: {provider: acme, announce: local}, subnet: 192.0.2.0/24}`,
			`Refused ParseError a: spec: exactly one of local, remote, netbox or external must be specified (or the flat form: subnet and pool), and external and the flat form are; exactly one must be, so remove the others`},
		{"no addresses", `a: {local: {}}`,
			`Refused ParseError a: spec: the group has no addresses: add a range as v4pool, v6pool, v4pools or v6pools`},
		{"no addresses in lists", `a: {remote: {v4pools: [], v6pools: []}}`,
			`Refused ParseError a: spec: the group has no addresses: add a range as v4pool, v6pool, v4pools or v6pools`},
		{"half of the flat form", `a: {pool: 192.0.2.0/24}`,
			`Refused ParseError a: spec.subnet: "": nothing is written here; write a CIDR such as 192.0.2.0/24`},
		{"the other half", `a: {local: {subnet: "2001:db8::/64"}}`,
			`Refused ParseError a: spec.local.pool: "": nothing is written here; write a CIDR such as 192.0.2.0/24, or a first and a last address such as 192.0.2.10-192.0.2.20`},
		{"not an address", `a: {local: {v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.300-192.0.2.301}}}`,
			`Refused ParseError a: spec.local.v4pool.pool: "192.0.2.300-192.0.2.301": "192.0.2.300" is not an IP address: IPv4 field has value >255`},
		{"not a range", `a: {local: {v6pools: [{subnet: "2001:db8::/64", pool: "2001:db8::1"}]}}`,
			`Refused ParseError a: spec.local.v6pools[0].pool: "2001:db8::1": the mask is missing; for this one address write 2001:db8::1/128`},
		{"not a subnet", `a: {local: {v4pools: [{subnet: "192.0.2.0/33", pool: 192.0.2.0/24}]}}`,
			`Refused ParseError a: spec.local.v4pools[0].subnet: "192.0.2.0/33": "/33" is not the length of a mask; write a number from /0 to /32`},
		{"outside of the subnet", `a: {remote: {v4pool: {subnet: 192.0.2.0/24, pool: 192.0.3.0/24}}}`,
			`Refused ParseError a: spec.remote.v4pool.pool: "192.0.3.0/24": the range 192.0.3.0-192.0.3.255 is not inside the subnet 192.0.2.0/24; make the range smaller or the subnet larger`},
		{"a range and a subnet of two families", `a: {local: {v4pool: {subnet: "2001:db8::/64", pool: 192.0.2.0/24}}}`,
			`Refused ParseError a: spec.local.v4pool.pool: "192.0.2.0/24": the range is IPv4 and the subnet 2001:db8::/64 is IPv6; both must be of one family`},
		{"IPv6 in the field of IPv4", `a: {local: {v4pool: {subnet: "2001:db8::/64", pool: "2001:db8::/120"}}}`,
			`Refused ParseError a: spec.local.v4pool.pool: "2001:db8::/120" is an IPv6 range and spec.local.v4pool is for IPv4; move it to v6pool`},
		{"IPv4 in the list of IPv6", `a: {remote: {v6pools: [{subnet: 192.0.2.0/24, pool: 192.0.2.0/24}]}}`,
			`Refused ParseError a: spec.remote.v6pools[0].pool: "192.0.2.0/24" is an IPv4 range and spec.remote.v6pools[0] is for IPv6; move it to v4pools`},
		{"a bad aggregation", `a: {remote: {v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.0/24, aggregation: "32"}}}`,
			`Refused ParseError a: spec.remote.v4pool.aggregation: "32": this is not a mask; write one with its slash, such as "/32", or "default" for that of the subnet`},
		{"nothing but reserved addresses", `a: {local: {v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.0/32}}}`,
			`Refused ParseError a: spec.local.v4pool.pool: "192.0.2.0/32" has no address that can be handed out: the subnet 192.0.2.0/24 reserves them; choose others, or write 192.0.2.0-192.0.2.0 to hand them out all the same`},
		{"two single ranges of one family", `a: {local: {subnet: 192.0.2.0/24, pool: 192.0.2.0/25, v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.128/25}}}`,
			`Refused ParseError a: spec.local.pool: "192.0.2.0/25" stands beside another IPv4 range of the group; move it to v4pool or v4pools`},
		{"ranges of one group overlap",
			`a: {local: {v4pools: [{subnet: 192.0.2.0/24, pool: 192.0.2.0/24}, {subnet: 192.0.2.0/24, pool: 192.0.2.7-192.0.2.9}]}}`,
			`Refused Overlaps a: spec.local.v4pools[1].pool: Pool overlaps with another pool of the same group. Overlapping ranges: 192.0.2.7-192.0.2.9 here and 192.0.2.0/24 there; change one of them so that each address is in one range only`},
		{"list and single overlap, IPv6",
			`a: {local: {v6pools: [{subnet: "2001:db8::/64", pool: "2001:db8::7-2001:db8::9"}], v6pool: {subnet: "2001:db8::/64", pool: "2001:db8::/64"}}}`,
			`Refused Overlaps a: spec.local.v6pool.pool: Pool overlaps with another pool of the same group. Overlapping ranges: 2001:db8::/64 here and 2001:db8::7-2001:db8::9 there; change one of them so that each address is in one range only`},
		{"all mistakes are reported at once",
			`a: {local: {v4pool: {subnet: 192.0.2.0/24, pool: oops}, v6pool: {subnet: oops, pool: "2001:db8::/64"}}, enforceNamespaces: true, namespaces: [x]}`,
			`fence for x enforced
			 Refused ParseError a: spec.local.v4pool.pool: "oops": "oops" is not an IP address: unable to parse IP
			 Refused ParseError a: spec.local.v6pool.subnet: "oops": "oops" is not an IP address: unable to parse IP`},
		{"inside an older group", `a: {remote: {v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.0/24}}}
			 b: {remote: {v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.64/26}}}`,
			`group a Remote 192.0.2.0-192.0.2.255/24
			 Refused Overlaps b: spec.remote.v4pool.pool: Pool overlaps with already defined pool "a". Overlapping ranges: 192.0.2.64/26 here and 192.0.2.0/24 there; change one of them so that each address is in one range only`},
		{"across the edge of an older group, IPv6", `a: {remote: {v6pool: {subnet: "2001:db8::/64", pool: "2001:db8::10-2001:db8::20"}}}
			 b: {local: {v6pools: [{subnet: "2001:db8::/64", pool: "2001:db8::1-2001:db8::9"}, {subnet: "2001:db8::/64", pool: "2001:db8::20-2001:db8::30"}]}}`,
			`group a Remote 2001:db8::10-2001:db8::20/64
			 Refused Overlaps b: spec.local.v6pools[1].pool: Pool overlaps with already defined pool "a". Overlapping ranges: 2001:db8::20-2001:db8::30 here and 2001:db8::10-2001:db8::20 there; change one of them so that each address is in one range only`},
		{"a refused group blocks no other",
			`a: {remote: {v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.0/24}, v6pool: {subnet: "2001:db8::/64", pool: oops}}}
			 b: {remote: {v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.64/26}}}`,
			`group b Remote 192.0.2.64-192.0.2.127/24
			 Refused ParseError a: spec.remote.v6pool.pool: "oops": "oops" is not an IP address: unable to parse IP
			 Refused Overlaps a: spec.remote.v4pool.pool: Pool overlaps with already defined pool "b". Overlapping ranges: 192.0.2.0/24 here and 192.0.2.64/26 there; change one of them so that each address is in one range only`},
		{"an alias that is a newer group's name", `a: {name: b, subnet: 192.0.2.0/24, pool: 192.0.2.0/25}
			 b: {remote: {v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.128/25}}}`,
			`group a Auto 192.0.2.0-192.0.2.127/24
			 group b Remote 192.0.2.128-192.0.2.255/24
			 Warning Duplicate a: spec.name: Duplicate definition of pool b: the name belongs to ServiceGroup "b", so Services can call this group by "a" only; choose another name or remove it`},
		{"an alias that is the name of a refused group", `a: {name: b, subnet: 192.0.2.0/24, pool: 192.0.2.0/25}
			 b: {}`,
			`group a Auto 192.0.2.0-192.0.2.127/24
			 Warning Duplicate a: spec.name: Duplicate definition of pool b: the name belongs to ServiceGroup "b", so Services can call this group by "a" only; choose another name or remove it
			 Refused ParseError b: spec: exactly one of local, remote, netbox or external must be specified (or the flat form: subnet and pool), and none is; exactly one must be, so add one`},
		{"an alias that an older group has", `a: {name: x, subnet: 192.0.2.0/24, pool: 192.0.2.0/25}
			 b: {name: x, subnet: 192.0.2.0/24, pool: 192.0.2.128/25}`,
			`group a Auto 192.0.2.0-192.0.2.127/24 alias x
			 group b Auto 192.0.2.128-192.0.2.255/24
			 Warning Duplicate b: spec.name: Duplicate definition of pool x: the name belongs to ServiceGroup "a", so Services can call this group by "b" only; choose another name or remove it`},
		{"an alias that only a refused group has", `a: {name: x, subnet: 192.0.2.0/24, pool: oops}
			 b: {name: x, subnet: 192.0.2.0/24, pool: 192.0.2.128/25}`,
			`group b Auto 192.0.2.128-192.0.2.255/24 alias x
			 Refused ParseError a: spec.pool: "oops": "oops" is not an IP address: unable to parse IP`},
		{"an alias that is its own name", `a: {name: a, subnet: 192.0.2.0/24, pool: 192.0.2.0/25}`,
			`group a Auto 192.0.2.0-192.0.2.127/24 alias a`},
		{"a group that is listed twice, as in files", `a: {remote: {v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.0/25}}}
			 a: {remote: {v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.128/25}}}`,
			`group a Remote 192.0.2.0-192.0.2.127/24
			 Refused Duplicate a: metadata.name: Duplicate definition of pool a: there is a ServiceGroup of this name already; give one of them another name`},
		{"in another namespace", `purelb/a: {remote: {v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.0/24}}}
			 a: {remote: {v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.0/24}}}`,
			`group a Remote 192.0.2.0-192.0.2.255/24
			 Refused OutOfScope a: metadata.namespace: ignored, so no Service gets an address from it: namespace "purelb" is not the PureLB install namespace, and not in configNamespaces of the chart. Move it to "purelb-system": kubectl get servicegroup a -n purelb -o yaml | sed -e '/^  uid:/d' -e '/^  resourceVersion:/d' -e 's/^  namespace: .*/  namespace: purelb-system/' | kubectl apply -f - && kubectl delete servicegroup a -n purelb`},
	})
}
