package config_test

import (
	"testing"

	"sigs.k8s.io/yaml"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/testing/expect"
)

func TestAGroupRestrictsIfNoAdvertisementIsForAll(t *testing.T) {
	for _, tt := range []struct {
		name, spec string
		want       bool
	}{
		{"no attributes", "{remote: {}}", false},
		{"attributes", "{remote: {}, bgp: {med: 1, asPathPrepend: 1}}", false},
		{"peers", "{remote: {}, bgp: {peers: [tor]}}", true},
		{"nodes", "{remote: {}, bgp: {nodeSelector: {}}}", true},
		{"nodes of a group with a backend", "{netbox: {}, bgp: {nodeSelector: {}}}", false},
		{"an advertisement to some", "{remote: {}, bgp: {advertisements: [{peers: [tor]}]}}", true},
		{"an advertisement by some", "{remote: {}, bgp: {advertisements: [{nodeSelector: {}}]}}", true},
		{"each with its limits", "{remote: {}, bgp: {advertisements: [{peers: [tor]}, {nodeSelector: {}}]}}", true},
		{"one to some, and one to all", "{remote: {}, bgp: {advertisements: [{peers: [tor], asPathPrepend: 1}, {}]}}", false},
		{"one with the peers beside the list", "{external: {}, bgp: {peers: [tor], advertisements: [{med: 1}]}}", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var spec v2.ServiceGroupSpec
			expect.NoError(t, yaml.UnmarshalStrict([]byte(tt.spec), &spec))
			expect.Equal(t, "restricts", config.Restricts(spec), tt.want)
		})
	}
}
