package config_test

import (
	"net/netip"
	"strings"
	"testing"

	"purelb.io/purelb/internal/config"
)

func TestRangesHandedOut(t *testing.T) {
	check(t, ofGroups, []example{
		{"of every pool", `a: {local: {multiPool: true, v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.0/24}}}`,
			`group a Local 192.0.2.0-192.0.2.255/24 multiPool`},
		{"of every pool, if a Service requests that", `a: {local: {allowMultiPool: true, v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.0/24}}}`,
			`group a Local 192.0.2.0-192.0.2.255/24`},
		{"of one pool, even if a Service requests more", `a: {local: {allowMultiPool: false, v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.0/24}}}`,
			`group a Local 192.0.2.0-192.0.2.255/24 no multiPool by request`},
		{"of the emptiest pool", `a: {remote: {balancePools: true, v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.0/24}}}`,
			`group a Remote 192.0.2.0-192.0.2.255/24 balancePools`},
		{"with both modes allowed, so that Services decide",
			`a: {remote: {multiPool: true, balancePools: true, v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.0/24}}}`,
			`group a Remote 192.0.2.0-192.0.2.255/24 multiPool balancePools
			 Warning Adjusted a: spec.remote.balancePools: is mutually exclusive with multiPool, so Services get addresses from this group only when they turn multiPool off, by the annotation purelb.io/multi-pool: "false"; remove one of them`},
		{"without some",
			`a: {remote: {v4pools: [{subnet: 192.0.2.0/24, pool: 192.0.2.1-192.0.2.99, exclude: [192.0.2.50-192.0.2.60, 192.0.2.16/28, 192.0.2.7, 192.0.2.61]}, {subnet: 198.51.100.0/24, pool: 198.51.100.0/24}], v6pool: {subnet: "2001:db8::/64", pool: "2001:db8::/64", exclude: ["2001:db8::/65"]}}}`,
			`group a Remote 192.0.2.1-192.0.2.99/24 without 192.0.2.7-192.0.2.7 without 192.0.2.16-192.0.2.31 without 192.0.2.50-192.0.2.61 198.51.100.0-198.51.100.255/24 2001:db8::-2001:db8::ffff:ffff:ffff:ffff/64 without 2001:db8::-2001:db8::7fff:ffff:ffff:ffff`},
		{"no more",
			`a: {local: {v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.0/24, drain: true}, v6pools: [{subnet: "2001:db8::/64", pool: "2001:db8::/64", drain: false}]}}`,
			`group a Local 192.0.2.0-192.0.2.255/24 draining 2001:db8::-2001:db8::ffff:ffff:ffff:ffff/64`},
		{"without any", `a: {remote: {v4pools: [{subnet: 192.0.2.0/24, pool: 192.0.2.128/25, exclude: [192.0.2.128/26, 192.0.2.192/26]}]}}`,
			`group a Remote 192.0.2.128-192.0.2.255/24 without 192.0.2.128-192.0.2.255
			 Warning Adjusted a: spec.remote.v4pools[0].exclude: takes in every address of "192.0.2.128/25", so none is handed out: leave some of them out, or write drain: true if this is meant`},
		{"with exclusions of reserved addresses", `a: {remote: {v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.0/32, exclude: [192.0.2.0]}}}`,
			`Refused ParseError a: spec.remote.v4pool.pool: "192.0.2.0/32" has no address that can be handed out: the subnet 192.0.2.0/24 reserves them; choose others, or write 192.0.2.0-192.0.2.0 to hand them out all the same`},
		{"excluded addresses still belong to their pool", `a: {remote: {v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.0/24, exclude: [192.0.2.128/25]}}}
			 b: {remote: {v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.128/25}}}`,
			`group a Remote 192.0.2.0-192.0.2.255/24 without 192.0.2.128-192.0.2.255
			 Refused Overlaps b: spec.remote.v4pool.pool: Pool overlaps with already defined pool "a". Overlapping ranges: 192.0.2.128/25 here and 192.0.2.0/24 there; change one of them so that each address is in one range only`},
	})
}

// TestWrongExclusionNamesItsField checks the field. Package ipam writes the
// message.
func TestWrongExclusionNamesItsField(t *testing.T) {
	tests := []struct{ group, field string }{
		{`a: {remote: {v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.0/25, exclude: [192.0.2.1, oops]}}}`, "spec.remote.v4pool.exclude[1]"},
		{`a: {remote: {v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.0/25, exclude: [192.0.2.128]}}}`, "spec.remote.v4pool.exclude[0]"},
		{`a: {local: {v6pools: [{subnet: "2001:db8::/64", pool: "2001:db8::/64", exclude: [192.0.2.1]}]}}`, "spec.local.v6pools[0].exclude[0]"},
	}
	for _, tt := range tests {
		c := config.For(serviceGroups(t, tt.group), nil, home)
		if len(c.Groups.Usable) > 0 || len(c.Problems) != 1 || c.Problems[0].Field != tt.field || c.Problems[0].Reason != config.ReasonParseError {
			t.Errorf("%s:\n%s", tt.group, print(c))
		}
	}
}

func TestAggregationWiderThanSubnetIsWarnedOf(t *testing.T) {
	const told = ` and puts a route for all of 192.0.0.0/16 on every node: write "default" for the mask of the subnet, or a longer one`
	check(t, ofGroups, []example{
		{"remote", `a: {remote: {v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.0/24, aggregation: /16}}}`,
			`group a Remote 192.0.2.0-192.0.2.255/16
			 Warning Adjusted a: spec.remote.v4pool.aggregation: /16 is shorter than the mask of the subnet 192.0.2.0/24` + told},
		{"auto, in the oldest form", `a: {subnet: 192.0.2.0/24, pool: 192.0.2.0/24, aggregation: /16}`,
			`group a Auto 192.0.2.0-192.0.2.255/16
			 Warning Adjusted a: spec.aggregation: /16 is shorter than the mask of the subnet 192.0.2.0/24` + told},
		{"no warning for a local group", `a: {local: {v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.0/24, aggregation: /16}}}`,
			`group a Local 192.0.2.0-192.0.2.255/16`},
		{"an equal and a longer mask",
			`a: {remote: {v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.0/24, aggregation: /24}, v6pool: {subnet: "2001:db8::/64", pool: "2001:db8::/64", aggregation: /65}}}`,
			`group a Remote 192.0.2.0-192.0.2.255/24 2001:db8::-2001:db8::ffff:ffff:ffff:ffff/65`},
	})
}

// TestHostRouteRangeIsVirtualWithoutNodes: a v1 group names neither local nor remote. So the
// networks of the nodes decide whether its range is virtual, as they decide about the interface.
func TestHostRouteRangeIsVirtualWithoutNodes(t *testing.T) {
	tests := []struct {
		name, group, subnets, address string
		want                          string
	}{
		{"remote, a route for each address", `a: {remote: {v4pool: {subnet: 172.31.1.0/24, pool: 172.31.1.0/24, aggregation: /32}}}`, "", "", "172.31.1.0"},
		{"IPv6", `a: {remote: {v6pool: {subnet: "fd00::/64", pool: "fd00::/64", aggregation: /128}}}`, "", "", "fd00::"},
		{"v1", `a: {local: {announce: auto, v4pool: {subnet: 172.31.1.0/24, pool: 172.31.1.0/24, aggregation: /32}}}`, "192.0.2.0/24", "192.0.2.1", "172.31.1.0"},
		{"the flat form", `a: {subnet: 172.31.1.0/24, pool: 172.31.1.0/24, aggregation: /32}`, "", "", "172.31.1.0"},
		{"one address", `a: {remote: {v4pool: {subnet: 172.31.1.0/24, pool: 172.31.1.0/32, aggregation: /32}}}`, "", "", "172.31.1.0"},
		{"remote, one route for all addresses", `a: {remote: {v4pool: {subnet: 172.31.1.0/24, pool: 172.31.1.0/24}}}`, "", "", "172.31.1.1"},
		{"a shorter route", `a: {remote: {v4pool: {subnet: 172.31.1.0/24, pool: 172.31.1.0/24, aggregation: /31}}}`, "", "", "172.31.1.1"},
		{"local", `a: {local: {v4pool: {subnet: 172.31.1.0/24, pool: 172.31.1.0/24, aggregation: /32}}}`, "", "", "172.31.1.1"},
		{"v1, a node has the subnet", `a: {local: {announce: auto, v4pool: {subnet: 172.31.1.0/24, pool: 172.31.1.0/24, aggregation: /32}}}`, "172.31.1.0/24", "", "172.31.1.1"},
		{"remote, a node has a part of the subnet", `a: {remote: {v4pool: {subnet: 172.31.1.0/24, pool: 172.31.1.0/24, aggregation: /32}}}`, "172.31.1.0/25", "", "172.31.1.1"},
		{"a node without an agent is in the subnet", `a: {remote: {v4pool: {subnet: 172.31.1.0/24, pool: 172.31.1.0/24, aggregation: /32}}}`, "", "172.31.1.9", "172.31.1.1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var subnets []netip.Prefix
			var addresses []netip.Addr
			for text := range strings.FieldsSeq(tt.subnets) {
				subnets = append(subnets, netip.MustParsePrefix(text))
			}
			for text := range strings.FieldsSeq(tt.address) {
				addresses = append(addresses, netip.MustParseAddr(text))
			}
			before := config.For(serviceGroups(t, tt.group), nil, home)
			c := before.OnNodes(subnets, addresses)
			if len(c.Groups.Usable) != 1 {
				t.Fatal(print(c))
			}
			usable := c.Groups.Usable[0].Pools[0].Usable()
			if len(usable) != 1 || usable[0].From.String() != tt.want {
				t.Errorf("got %v", usable)
			}
			if _, p, ok := c.Groups.GroupOf(netip.MustParseAddr(tt.want)); !ok || p.Virtual != c.Groups.Usable[0].Pools[0].Virtual {
				t.Errorf("the pool found by its address is %+v", p)
			}
			same(t, before, print(config.For(serviceGroups(t, tt.group), nil, home)))
		})
	}
}
