package purelb_test

import (
	"fmt"
	"strings"
	"testing"
)

func TestValidObjectsAreAccepted(t *testing.T) {
	for _, spec := range []string{
		"{local: {v4pool: POOL}}",
		"{local: {v4pools: [POOL], v6pools: [POOL6], multiPool: true, balancePools: true}}",
		"{remote: {v6pool: {pool: ' 2001:DB8::1 - 2001:db8::ffff ', subnet: '2001:db8::/64', aggregation: ''}}}",
		"{local: {v6pool: {pool: '::ffff:192.0.2.1-::ffff:192.0.2.9', subnet: '::/0', aggregation: /128}}}",
		"{remote: {v4pool: {pool: 9.255.255.255-10.0.0.0, subnet: 0.0.0.0/0}, v6pool: {pool: '2001:db8::/128', subnet: '2001:db8::/0'}}}",
		"{local: {v4pools: [{pool: 192.0.2.1-192.0.2.1, subnet: 192.0.2.1/32, exclude: [192.0.2.1/32]}]}}",
		"{local: {v4pool: {pool: 0.0.0.0-255.255.255.255, subnet: 0.0.0.0/0}}}",
		"{local: {v4pool: {pool: 255.255.255.255/0, subnet: ' 9.9.9.9/0 '}}}",
		"{local: {v4pools: [{pool: ' 10.0.0.128/25 ', subnet: ' 10.0.0.1/24 '}, {pool: 10.1.0.0-10.1.1.255, subnet: 10.1.1.7/23}]}}",
		"{remote: {v4pools: [{pool: 10.0.0.200/24, subnet: 10.0.0.128/25}, {pool: 10.6.0.250-10.6.0.300, subnet: 10.6.0.0/24}]}}",
		"{remote: {v4pool: POOL}, namespaces: [a, b-2], enforceNamespaces: true, namespaceDefault: true}",
		"{remote: {v4pool: POOL}, enforceNamespaces: false, namespaceDefault: false}",
		"{remote: {v4pool: POOL}, namespaceSelector: {}, enforceNamespaces: true, namespaceDefault: true}",
		"{remote: {v4pool: POOL}, serviceSelector: {matchLabels: {tier: web}}, priority: 0, autoAssign: false, shareAcrossNamespaces: true}",
		"{remote: {v4pool: POOL}, priority: 1000000, autoAssign: true}",
		"{local: {v4pool: {pool: 192.0.2.0/24, subnet: 192.0.2.0/24, drain: true, exclude: [192.0.2.7, 192.0.2.16/28, ' 192.0.2.32 - 192.0.2.40 ']}}}",
		"{remote: {v6pools: [{pool: '2001:db8::/64', subnet: '2001:db8::/64', exclude: ['2001:db8::1', '2001:DB8::100/120', '2001:db8::200-2001:db8::2ff']}]}}",
		"{remote: {v4pool: POOL}, bgp: {communities: ['0:0', '65535:65535'], largeCommunities: ['0:0:0', '4294967295:1:4294967295'], med: 4294967295, localPreference: 0}}",
		"{local: {announce: auto, v4pool: POOL}, bgp: {}}",
		"{remote: {v4pool: POOL}, bgp: {asPathPrepend: 10, advertisements: [{}, {peers: [tor], nodeSelector: {matchLabels: {rack: a}}, aggregation: /8, aggregationV6: /128, communities: ['1:1'], largeCommunities: ['1:1:1'], med: 0, localPreference: 1, asPathPrepend: 0}]}}",
		"{netbox: {url: 'http://netbox:8080/api', aggregation: ''}}",
		"{netbox: {url: 'https://[2001:db8::1]/netbox/', tenant: us, mode: reserved, parents: [], announce: local, field: claim_2, tokenSecret: {}}}",
		"{netbox: {url: 'https://n', mode: prefix, parents: [{rangeID: 7}, {prefix: {cidr: '2001:DB8::/64'}}, {range: {start: 192.0.2.10, vrf: '65000:1'}}, {range: {vrf: global}}]}}",
		"{netbox: {url: 'https://n', parents: [{prefix: {site: here}}], tenant: '', status: active, role: vip, tags: [a, b_2], aggregation: /24, caSecret: {name: ca}}}",
		"{external: {provider: an IPAM of ours, announce: local, socket: /s}}",
		"agent: {local: {networks: [203.0.113.0/28, '2001:db8:7::/64', ' 198.51.100.7/32 ']}}",
		"agent: {local: {localInterface: 'en(p3|p4)s[0-9]+', interfaces: [eth0.100, 'bond0', 'x,y'], dummyInterface: lb0}}",
		"agent: {local: {localint: '(', extlbint: kube-lb0, sendgarp: true}}",
		"agent: {local: {garpConfig: {initialDelay: 0s, interval: 1m0.5s, count: 1}}}",
		"agent: {local: {addressConfig: {localInterface: {validLifetime: 1, preferredLifetime: 2147483647}}}}",
	} {
		if got := refusals(t, objectOf(t, "v2", spec)); got != "" {
			t.Errorf("%s: %s", spec, got)
		}
	}
}

// TestTheLargestObjectIsWithinTheServersLimits: the API server limits the cost of the validation
// rules of one object.
func TestTheLargestObjectIsWithinTheServersLimits(t *testing.T) {
	address, slug := strings.Repeat("f", 126), strings.Repeat("s", 100)
	pools := strings.Repeat("{pool: '"+address+"/9', subnet: '"+address[:62]+"/9', aggregation: /128}, ", 256)
	namespaces := strings.Repeat(strings.Repeat("n", 63)+", ", 1024)
	exclude := strings.Repeat(address[:93]+"/9, ", 64)
	most := strings.Repeat("{pool: 192.0.2.0/24, subnet: 192.0.2.0/24, exclude: ["+exclude+"]}, ", 200) // the store accepts hardly more exclusions
	spaces := strings.Repeat(" ", 47)
	ranges := strings.Repeat("{pool: '255.255.255.254 "+spaces+"-"+spaces+" 255.255.255.255', subnet: 255.255.255.0/24}, ", 256)
	parents := strings.Repeat("{prefix: {cidr: '"+address[:60]+"/64', vrf: "+slug+", role: "+slug+", tag: "+slug+", tenant: "+slug+", site: "+slug+"}}, ", 32)
	url, tags := "https://"+strings.Repeat("n", 2000), strings.Repeat(slug+", ", 32)
	var names []string
	for i := range 64 {
		names = append(names, fmt.Sprintf("interface-%05d", i))
	}
	for _, spec := range []string{
		"{local: {v4pools: [" + pools + "], v6pools: [" + pools + "]}, namespaces: [" + namespaces + "], enforceNamespaces: true}",
		"{remote: {v4pools: [" + most + "]}}",
		"{remote: {v4pools: [" + ranges + "], v6pools: [" + ranges + "]}}",
		"{netbox: {url: '" + url + "', parents: [" + parents + "], tags: [" + tags + "], role: " + slug + "}}",
		"agent: {local: {interfaces: [" + strings.Join(names, ", ") + "]}}",
	} {
		if got := refusals(t, objectOf(t, "v2", spec)); got != "" {
			t.Error(got)
		}
	}
}
