package config_test

import (
	"testing"

	"purelb.io/purelb/internal/config"
)

func TestBackends(t *testing.T) {
	const rest = `field purelb_claim status active role "" tags []`
	tests := []struct{ name, groups, want string }{
		{
			"NetBox as in earlier versions",
			`a: {netbox: {url: "https://netbox.example.com/"}}`,
			`group a Remote by NetBox/32/128
			 backend a https://netbox.example.com/ token {purelb-system netbox-client user-token} reserved tenant "ipam-purelb" ` + rest,
		},
		{
			"a tenant",
			`a: {netbox: {url: "http://netbox/", tenant: acme, aggregation: default}}`,
			`group a Remote by NetBox/32/128
			 backend a http://netbox/ token {purelb-system netbox-client user-token} reserved tenant "acme" ` + rest,
		},
		{
			"a mask for both families, and one for IPv6",
			`a: {netbox: {url: "http://netbox/", aggregation: /24}}
			 b: {netbox: {url: "http://netbox/", tenant: b, aggregation: /64}}`,
			`group a Remote by NetBox/24/24
			 group b Remote by NetBox/32/64
			 backend a http://netbox/ token {purelb-system netbox-client user-token} reserved tenant "ipam-purelb" ` + rest + `
			 backend b http://netbox/ token {purelb-system netbox-client user-token} reserved tenant "b" ` + rest,
		},
		{
			"the Secret is in the namespace of the group",
			`team/a: {netbox: {url: "http://netbox/"}}`,
			`group a Remote by NetBox/32/128
			 backend team/a http://netbox/ token {team netbox-client user-token} reserved tenant "ipam-purelb" ` + rest,
		},
		{
			"IPAM servers, two groups on one socket",
			`a: {external: {provider: acme, announce: local}}
			 b: {external: {provider: acme, announce: remote, socket: /var/run/purelb/ipam.sock}}
			 c: {external: {provider: other, announce: remote, socket: /run/c.sock}}`,
			`group a Local by acme/32/128
			 group b Remote by acme/32/128
			 group c Remote by other/32/128
			 backend a acme at /var/run/purelb/ipam.sock
			 backend b acme at /var/run/purelb/ipam.sock
			 backend c other at /run/c.sock`,
		},
		{
			"beside groups without, and without those that are refused",
			`a: {remote: {v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.0/24}}}
			 b: {external: {provider: acme, announce: local}}
			 b: {external: {provider: acme, announce: local}}`,
			`group a Remote 192.0.2.0-192.0.2.255/24
			 group b Local by acme/32/128
			 backend b acme at /var/run/purelb/ipam.sock
			 Refused Duplicate b: metadata.name: Duplicate definition of pool b: there is a ServiceGroup of this name already; give one of them another name`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			same(t, config.For(groups(t, tt.groups), nil, home, "team"), tt.want)
		})
	}
}

func TestBackendsThatAreWrong(t *testing.T) {
	tests := []struct{ name, groups, want string }{
		{
			"a mask without its slash",
			`a: {netbox: {url: "http://netbox/", aggregation: "32"}}`,
			`Refused ParseError a: spec.netbox.aggregation: "32" is not a mask: write one from /8 to /128, or "default" for a route for each address`,
		},
		{
			"a mask that is too short",
			`a: {netbox: {url: "http://netbox/", aggregation: /7}}`,
			`Refused ParseError a: spec.netbox.aggregation: "/7" is not a mask: write one from /8 to /128, or "default" for a route for each address`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			same(t, config.For(groups(t, tt.groups), nil, home), tt.want)
		})
	}
}
