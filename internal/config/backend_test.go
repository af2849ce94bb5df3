package config_test

import (
	"testing"

	"purelb.io/purelb/internal/config"
)

func TestBackends(t *testing.T) {
	const rest = `field purelb_claim status active role "" tags []`
	check(t, func(t *testing.T, text string) config.Config {
		return config.For(serviceGroups(t, text), nil, home, "team")
	}, []example{
		{"NetBox as in earlier versions", `a: {netbox: {url: "https://netbox.example.com/"}}`,
			`group a Remote by NetBox/32/128
			 backend a https://netbox.example.com/ token {purelb-system netbox-client user-token} reserved tenant "ipam-purelb" ` + rest},
		{"a tenant", `a: {netbox: {url: "http://netbox/", tenant: acme, aggregation: default}}`,
			`group a Remote by NetBox/32/128
			 backend a http://netbox/ token {purelb-system netbox-client user-token} reserved tenant "acme" ` + rest},
		{"a mask for IPv4, and one for IPv6", `a: {netbox: {url: "http://netbox/", aggregation: /24}}
			 b: {netbox: {url: "http://netbox/", tenant: b, aggregation: /64}}`,
			`group a Remote by NetBox/24/128
			 group b Remote by NetBox/32/64
			 backend a http://netbox/ token {purelb-system netbox-client user-token} reserved tenant "ipam-purelb" ` + rest + `
			 backend b http://netbox/ token {purelb-system netbox-client user-token} reserved tenant "b" ` + rest},
		{"an IPv6 address, a port and a path", `a: {netbox: {url: "https://[2001:db8::1]:8443/netbox/api"}}`,
			`group a Remote by NetBox/32/128
			 backend a https://[2001:db8::1]:8443/netbox/api token {purelb-system netbox-client user-token} reserved tenant "ipam-purelb" ` + rest},
		{"the Secret is in the namespace of the group", `team/a: {netbox: {url: "http://netbox/"}}`,
			`group a Remote by NetBox/32/128
			 backend team/a http://netbox/ token {team netbox-client user-token} reserved tenant "ipam-purelb" ` + rest},
		{"all of NetBox",
			`a: {netbox: {url: "https://n/", announce: local, tenant: us, field: claim, status: dhcp, role: vip, tags: [k8s, lb], tokenSecret: {name: t, key: k}, caSecret: {name: c}, ` +
				`parents: [{rangeID: 7}, {prefixID: 8}, {range: {start: "2001:db8::1", vrf: global}}, {prefix: {cidr: 192.0.2.0/24, vrf: blue}}]}}`,
			`group a Local by NetBox/32/128
			 backend a https://n/ token {purelb-system t k} CA {purelb-system c ca.crt}` +
				` in {Range:true ID:7 Prefix:invalid Prefix Start:invalid IP VRF:}` +
				` in {Range:false ID:8 Prefix:invalid Prefix Start:invalid IP VRF:}` +
				` in {Range:true ID:0 Prefix:invalid Prefix Start:2001:db8::1 VRF:global}` +
				` in {Range:false ID:0 Prefix:192.0.2.0/24 Start:invalid IP VRF:blue}` +
				` tenant "us" field claim status dhcp role "vip" tags ["k8s" "lb"]`},
		{"mode prefix has no default tenant, and the Secret has its default name",
			`a: {netbox: {url: "http://netbox/", mode: prefix, tokenSecret: {key: k}, parents: [{prefix: {cidr: 192.0.2.0/24}}]}}`,
			`group a Remote by NetBox/32/128
			 backend a http://netbox/ token {purelb-system netbox-client k}` +
				` in {Range:false ID:0 Prefix:192.0.2.0/24 Start:invalid IP VRF:} tenant "" ` + rest},
		{"traits of parents are not compared, and a parent with traits alone is left out",
			`a: {netbox: {url: "http://n/", parents: [{prefix: {cidr: 192.0.2.0/24, vrf: blue, role: lb, tag: t, tenant: u, site: s}}, {prefix: {vrf: blue, site: s}}, {range: {vrf: blue}}, {rangeID: 7}]}}
			 b: {netbox: {url: "http://n/", parents: [{range: {tag: t}}]}}`,
			`group a Remote by NetBox/32/128
			 backend a http://n/ token {purelb-system netbox-client user-token}` +
				` in {Range:false ID:0 Prefix:192.0.2.0/24 Start:invalid IP VRF:blue}` +
				` in {Range:true ID:7 Prefix:invalid Prefix Start:invalid IP VRF:} tenant "" ` + rest + `
			 Warning NotSupported a: spec.netbox.parents[0].prefix: not supported, and not compared: role, tag, tenant, site; only cidr and vrf count; remove the rest, or write prefixID
			 Warning NotSupported a: spec.netbox.parents[1].prefix: this is left out, because NetBox is not searched by site: write prefixID, or cidr and vrf
			 Warning NotSupported a: spec.netbox.parents[2].range: this is left out, because NetBox is not searched by vrf alone: write rangeID, or start and vrf
			 Warning NotSupported b: spec.netbox.parents[0].range: this is left out, because NetBox is not searched by tag: write rangeID, or start and vrf
			 Refused NotSupported b: spec.netbox.parents: no prefix or IP range of NetBox is left, so PureLB cannot make addresses: name at least one by its id, or by its cidr or start`},
		{"IPAM servers, two groups on one socket", `a: {external: {provider: acme, announce: local}}
			 b: {external: {provider: acme, announce: remote, socket: /var/run/purelb/ipam.sock}}
			 c: {external: {provider: other, announce: remote, socket: /run/c.sock}}`,
			`group a Local by acme/32/128
			 group b Remote by acme/32/128
			 group c Remote by other/32/128
			 backend a acme at /var/run/purelb/ipam.sock
			 backend b acme at /var/run/purelb/ipam.sock
			 backend c other at /run/c.sock`},
		{"attributes of routes must be set on Services", `a: {external: {provider: acme, announce: remote}, bgp: {med: 1}}`,
			`group a Remote by acme/32/128
			 backend a acme at /var/run/purelb/ipam.sock
			 Warning Adjusted a: spec.bgp: med is not in effect, because it is not known beforehand which addresses the group has: remove it. The annotations purelb.io/bgp-* of Services set communities, MED and local preference`},
		{"neighbors of a group are in effect, and all other attributes are not",
			`a: {external: {provider: acme, announce: remote}, bgp: {peers: [tor], communities: ["65000:1"], largeCommunities: ["65000:1:1"], med: 0, localPreference: 0, weightByEndpoints: true, nodeSelector: {}, asPathPrepend: 1, advertisements: [{peers: [tor], med: 1}]}}
			 b: {external: {provider: acme, announce: remote}, bgp: {peers: [tor], advertisements: [{peers: [spine]}]}}`,
			`group a Remote by acme/32/128
			 group b Remote by acme/32/128
			 backend a acme at /var/run/purelb/ipam.sock
			 backend b acme at /var/run/purelb/ipam.sock
			 Warning Adjusted a: spec.bgp: communities, largeCommunities, med, localPreference, asPathPrepend, weightByEndpoints, nodeSelector and all of advertisements but peers are not in effect, because it is not known beforehand which addresses the group has: remove them. The annotations purelb.io/bgp-* of Services set communities, MED and local preference`},
		{"only usable groups with a backend have an entry", `a: {remote: {v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.0/24}}}
			 b: {external: {provider: acme, announce: local}}
			 b: {external: {provider: acme, announce: local}}`,
			`group a Remote 192.0.2.0-192.0.2.255/24
			 group b Local by acme/32/128
			 backend b acme at /var/run/purelb/ipam.sock
			 Refused Duplicate b: metadata.name: Duplicate definition of pool b: there is a ServiceGroup of this name already; give one of them another name`},
	})
}

// The schema refuses these. An API server may still have stored them before the schema did.
func TestStoredBackendsThatTheSchemaRefusesDoNoHarm(t *testing.T) {
	const backend = `backend a http://n/ token {purelb-system netbox-client user-token} `
	const rest = `field purelb_claim status active role "" tags []`
	check(t, func(t *testing.T, text string) config.Config { return ofGroups(t, "a: {"+text+"}") }, []example{
		{"masks", `netbox: {url: "http://n/", aggregation: /7}`, `group a Remote by NetBox/32/128
			 ` + backend + `reserved tenant "ipam-purelb" ` + rest},
		{"a longer mask than any", `netbox: {url: "http://n/", aggregation: /129}`, `group a Remote by NetBox/32/128
			 ` + backend + `reserved tenant "ipam-purelb" ` + rest},
		{"another place and another mode", `netbox: {url: "http://n/", announce: auto, mode: Prefix}`, `group a Remote by NetBox/32/128
			 ` + backend + `tenant "" ` + rest},
		{"two selectors in one parent, and none", `netbox: {url: "http://n/", parents: [{prefixID: 1, rangeID: 2, range: {start: 192.0.2.1}}, {}]}`, `group a Remote by NetBox/32/128
			 ` + backend + `in {Range:false ID:1 Prefix:invalid Prefix Start:invalid IP VRF:} tenant "" ` + rest},
		{"an IPAM server without a name", `external: {provider: " "}`, `group a Remote by IPAM server/32/128
			 backend a IPAM server at /var/run/purelb/ipam.sock`},
	})
}

// TestInvalidBackends gives each group the name "a".
func TestInvalidBackends(t *testing.T) {
	tests := []struct{ name, spec, want string }{
		{"a prefix without a selector", `netbox: {url: "http://n/", parents: [{prefix: {vrf: ""}}]}`, "spec.netbox.parents[0].prefix: this describes nothing: write prefixID, or cidr and vrf"},
		{"a range without a selector", `netbox: {url: "http://n/", parents: [{range: {}}]}`, "spec.netbox.parents[0].range: this describes nothing: write rangeID, or start and vrf"},
		{"a prefix without mask", `netbox: {url: "http://n/", parents: [{prefix: {cidr: 192.0.2.0}}]}`, `spec.netbox.parents[0].prefix.cidr: "192.0.2.0": the mask is missing; for this one address write 192.0.2.0/32`},
		{"bits after the mask", `netbox: {url: "http://n/", parents: [{prefix: {cidr: 192.0.2.9/24}}]}`, `spec.netbox.parents[0].prefix.cidr: "192.0.2.9/24" has bits after its mask: write 192.0.2.0/24`},
		{"a start with a mask", `netbox: {url: "http://n/", parents: [{range: {start: 192.0.2.9/24}}]}`, `spec.netbox.parents[0].range.start: "192.0.2.9/24" is not an IP address: write the first one of the IP range, such as 192.0.2.10`},
		{"a start with a zone", `netbox: {url: "http://n/", parents: [{range: {start: "fe80::1%eth0"}}]}`, `spec.netbox.parents[0].range.start: "fe80::1%eth0" is not an IP address: write the first one of the IP range, such as 192.0.2.10`},
		{"a repeated parent", `netbox: {url: "http://n/", parents: [{prefix: {cidr: 192.0.2.0/24}}, {rangeID: 1}, {prefix: {cidr: 192.0.2.0/24}}]}`, "spec.netbox.parents[2]: this is there once more above: remove one of them"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			same(t, config.For(serviceGroups(t, "a: {"+tt.spec+"}"), nil, home), "Refused ParseError a: "+tt.want)
		})
	}
}
