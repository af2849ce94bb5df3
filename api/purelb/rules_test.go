package purelb_test

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"purelb.io/purelb/internal/testing/apitest"
)

const (
	oneKind     = "spec: exactly one of local, remote, netbox or external must be specified (or the flat form: subnet and pool)"
	together    = "subnet and pool belong together: give both or none"
	poolShape   = "pool must be a range such as 192.168.1.100-192.168.1.150 or a CIDR such as 2001:db8::100/120; write a single address as 192.168.1.5/32"
	subnetShape = "subnet must be a CIDR such as 192.168.1.0/24 or 2001:db8::/64"
	aggregation = "aggregation must be default (the mask of the subnet) or a mask with its slash, /8 to /32 for IPv4 and /8 to /128 for IPv6"
	urlAlone    = "url must have no user, query or fragment: the token for NetBox is in a Secret, see tokenSecret"
	netboxMask  = "aggregation must be default (a route for each address) or a mask with its slash: /8 to /32 for IPv4, /33 to /128 for IPv6"
	unowned     = "status, role and tags are for addresses that PureLB makes, and in mode reserved it makes none: remove them, or name parents"
	oneParent   = "exactly one of prefixID, rangeID, prefix and range must be given"
	namespace   = "namespaces must hold names of namespaces: lower-case letters, digits and '-'; for patterns use namespaceSelector"
	exclusion   = "exclude must hold ranges such as 192.168.1.100-192.168.1.110, CIDRs such as 192.168.1.128/28 or single addresses such as 192.168.1.5"
	noFence     = "spec: enforceNamespaces needs namespaces or namespaceSelector: name the namespaces that it is for"
	noDefault   = "spec: namespaceDefault needs namespaces or namespaceSelector: say for which namespaces this is the group of choice"
	community   = "communities must hold two numbers of 0 to 65535 each, such as 65000:100, or names; for an AS above 65535 use largeCommunities"
	largeOne    = "largeCommunities must hold three numbers of 0 to 4294967295 each, such as 4200000000:1:100, or names"
	mask        = "the mask must be from /0 to /32 for IPv4, and from /0 to /128 for IPv6"
	outside     = "pool must lie inside subnet: make the range smaller or the subnet larger"
	reversed    = "the range is reversed: write the lower address first"
	ifName      = "the name of an interface has 1 to 15 characters, without spaces, '/' and ':'"
	selector    = "matchExpressions must have the operator In or NotIn with values, or Exists or DoesNotExist without values"
	dummy       = "interfaces must not hold the dummy interface: it carries remote addresses on every node, and local ones never"
	noParents   = "mode prefix makes addresses in prefixes and IP ranges of NetBox: name at least one in parents"
	noRange     = "needs addresses: at least one of v4pool, v6pool, v4pools and v6pools"
	duration    = "must be a duration that is not negative, such as 100ms or 1.5s"
)

// TestInvalidObjectIsRefused lists the API server's messages about objects that are wrong by
// themselves, whatever other objects exist. TestVersionsDifferInOneDefault shows that v1 has the same
// rules.
func TestInvalidObjectIsRefused(t *testing.T) {
	for _, tt := range []struct{ name, spec, want string }{
		{"no kind", "{}", oneKind},
		{"two kinds", "{local: {v4pool: POOL}, remote: {v6pool: POOL6}}", oneKind},
		{"a kind and the flat form", "{local: {v4pool: POOL}, pool: 192.0.2.0/24, subnet: 192.0.2.0/24}", oneKind},
		{"netbox and external", "{netbox: {url: 'http://n'}, external: {provider: a, announce: local}}", oneKind},

		{"the flat form without subnet", "{pool: 192.0.2.0/24}", "spec: " + together},
		{"the flat form without pool", "{subnet: 192.0.2.0/24}", "spec: " + together},
		{"the name of a group that is not flat", "{name: here, remote: {v4pool: POOL}}", "spec: name belongs to the flat form: give subnet and pool beside it, or remove it (a group is called by its metadata.name)"},
		{"an aggregation without a range", "{aggregation: /32, remote: {v4pool: POOL}}", "spec: aggregation at this level belongs to subnet and pool beside it: give them too, or put it into the range that it is meant for"},
		{"a name of two words", "{name: my group, pool: 192.0.2.0/24, subnet: 192.0.2.0/24}", "spec.name: name must be one word without spaces and commas, such as localaddrange"},

		{"local without addresses", "{local: {}}", "spec.local: local " + noRange},
		{"local with empty lists", "{local: {v4pools: [], v6pools: []}}", "spec.local: local " + noRange},
		{"remote without addresses", "{remote: {v4pools: []}}", "spec.remote: remote " + noRange},
		{"a single range without subnet", "{local: {pool: 192.0.2.0/24}}", "spec.local: " + together},
		{"a range without subnet", "{local: {v4pool: {pool: 192.0.2.0/24}}}", "spec.local.v4pool.subnet: Required value"},
		{"a range without pool", "{remote: {v6pools: [{subnet: '2001:db8::/64'}]}}", "spec.remote.v6pools[0].pool: Required value"},

		{"an empty pool", "{local: {v4pool: {pool: '', subnet: 192.0.2.0/24}}}", "spec.local.v4pool.pool: " + poolShape},
		{"one address", "{local: {v4pool: {pool: 192.0.2.1, subnet: 192.0.2.0/24}}}", "spec.local.v4pool.pool: " + poolShape},
		{"half a range", "{local: {v4pool: {pool: 192.0.2.1-, subnet: 192.0.2.0/24}}}", "spec.local.v4pool.pool: " + poolShape},
		{"a name", "{remote: {v6pools: [POOL6, {pool: many, subnet: '2001:db8::/64'}]}}", "spec.remote.v6pools[1].pool: " + poolShape},
		{"two ranges in one field", "{pool: '192.0.2.1-192.0.2.2,192.0.2.4-192.0.2.5', subnet: 192.0.2.0/24}", "spec.pool: " + poolShape},
		{"a zone", "{local: {v6pool: {pool: 'fe80::1%eth0/64', subnet: 'fe80::/64'}}}", "spec.local.v6pool.pool: " + poolShape},
		{"a subnet without mask", "{local: {v4pool: {pool: 192.0.2.0/24, subnet: 192.0.2.0}}}", "spec.local.v4pool.subnet: " + subnetShape},
		{"a mask in dots", "{local: {v4pool: {pool: 192.0.2.0/24, subnet: 192.0.2.0/255.255.255.0}}}", "spec.local.v4pool.subnet: " + subnetShape},
		{"a very long pool", "{remote: {v4pool: {pool: '" + strings.Repeat("1", 129) + "', subnet: 192.0.2.0/24}}}", "spec.remote.v4pool.pool: Too long: may not be more than 128 bytes"},

		{"a mask of 33", "{remote: {v4pool: {pool: 192.0.2.0/33, subnet: 192.0.2.0/24}}}", "spec.remote.v4pool.pool: " + mask},
		{"a mask of 129", "{remote: {v6pools: [{pool: '2001:db8::/64', subnet: '2001:db8::/129'}]}}", "spec.remote.v6pools[0].subnet: " + mask},
		{"a mask with a leading zero", "{pool: 192.0.2.0/024, subnet: 192.0.2.0/24}", "spec.pool: " + mask},
		{"an exclusion with a mask of 33", "{local: {v4pool: {pool: 192.0.2.0/24, subnet: 192.0.2.0/24, exclude: [192.0.2.0/33]}}}", "spec.local.v4pool.exclude[0]: " + mask},
		{"a range in a subnet of the other family", "{remote: {v4pool: {pool: 192.0.2.0/24, subnet: '2001:db8::/64'}}}", "spec.remote.v4pool: pool and subnet must be of one family"},
		{"a flat range in a subnet of the other family", "{pool: 192.0.2.0/24, subnet: '2001:db8::/64'}", "spec: pool and subnet must be of one family"},
		{"a range from one family to the other", "{local: {v4pool: {pool: '192.0.2.1-2001:db8::1', subnet: '2001:db8::/64'}}}", "spec.local.v4pool.pool: the first and the last address must be of one family"},
		{"a reversed range", "{local: {v4pool: {pool: 192.0.2.20 - 192.0.2.9, subnet: 192.0.2.0/24}}}", "spec.local.v4pool.pool: " + reversed},
		{"a range reversed in its first number", "{remote: {v4pools: [{pool: 198.0.0.1-192.255.255.255, subnet: 192.0.0.0/3}]}}", "spec.remote.v4pools[0].pool: " + reversed},

		{"a range outside its subnet", "{local: {v4pool: {pool: 192.0.2.1-192.0.2.9, subnet: 198.51.100.0/24}}}", "spec.local.v4pool: " + outside},
		{"a range that begins before its subnet", "{remote: {v4pools: [POOL, {pool: 10.0.0.255-10.0.1.9, subnet: 10.0.1.0/24}]}}", "spec.remote.v4pools[1]: " + outside},
		{"a range that ends after its subnet", "{remote: {v4pool: {pool: ' 10.0.1.9 - 10.0.1.128 ', subnet: 10.0.1.0/25}}}", "spec.remote.v4pool: " + outside},
		{"a range of IPv6 addresses outside its subnet", "{remote: {v6pool: {pool: '2001:db8:2::1-2001:db8:2::9', subnet: '2001:db8:3::/64'}}}", "spec.remote.v6pool: " + outside},
		{"a CIDR of IPv6 addresses wider than its subnet", "{local: {v6pools: [{pool: '2001:db8::/63', subnet: '2001:db8::/64'}]}}", "spec.local.v6pools[0]: " + outside},
		{"a CIDR wider than its subnet", "{local: {v4pools: [{pool: 10.0.0.0/23, subnet: 10.0.0.0/24}]}}", "spec.local.v4pools[0]: " + outside},
		{"a CIDR next to its subnet", "{local: {v4pool: {pool: 10.0.2.0/25, subnet: 10.0.0.0/23}}}", "spec.local.v4pool: " + outside},
		{"a range next to a subnet of one address", "{local: {v4pool: {pool: 192.0.2.1-192.0.2.1, subnet: 192.0.2.0/32}}}", "spec.local.v4pool: " + outside},
		{"a single range outside its subnet", "{local: {pool: 192.0.2.0/24, subnet: 192.0.3.0/24}}", "spec.local: " + outside},
		{"a flat range outside its subnet", "{pool: 192.0.2.0/24, subnet: 192.0.2.0/25}", "spec: " + outside},

		{"an aggregation without slash", "{local: {v4pool: {pool: 192.0.2.0/24, subnet: 192.0.2.0/24, aggregation: '32'}}}", "spec.local.v4pool.aggregation: " + aggregation},
		{"too wide an aggregation", "{remote: {v4pools: [{pool: 192.0.2.0/24, subnet: 192.0.2.0/24, aggregation: /7}]}}", "spec.remote.v4pools[0].aggregation: " + aggregation},
		{"too narrow an aggregation", "{remote: {v6pool: {pool: '2001:db8::/64', subnet: '2001:db8::/64', aggregation: /129}}}", "spec.remote.v6pool.aggregation: " + aggregation},

		{"announced elsewhere", "{local: {announce: remote, v4pool: POOL}}", `spec.local.announce: Unsupported value: "remote": supported values: "local", "auto"`},
		{"netbox without URL", "{netbox: {}}", "spec.netbox.url: Required value"},
		{"netbox by name", "{netbox: {url: netbox.example.com}}", "spec.netbox.url: url must be the base URL of the NetBox server, such as https://netbox.example.com/"},
		{"netbox with a password in the URL", "{netbox: {url: 'https://me:secret@netbox/'}}", "spec.netbox.url: " + urlAlone},
		{"netbox with a query", "{netbox: {url: 'https://netbox/?limit=1'}}", "spec.netbox.url: " + urlAlone},
		{"netbox with an aggregation in another word", "{netbox: {url: 'http://n', aggregation: Default}}", "spec.netbox.aggregation: " + netboxMask},
		{"netbox in an unknown mode", "{netbox: {url: 'http://n', mode: Prefix}}", `spec.netbox.mode: Unsupported value: "Prefix": supported values: "reserved", "prefix"`},
		{"netbox without parents", "{netbox: {url: 'http://n', mode: prefix, role: vip}}", "spec.netbox: " + noParents},
		{"netbox with an empty list of parents", "{netbox: {url: 'http://n', mode: prefix, parents: []}}", "spec.netbox: " + noParents},
		{"netbox with parents of reserved addresses", "{netbox: {url: 'http://n', mode: reserved, parents: [{prefixID: 1}]}}", "spec.netbox: mode reserved takes the addresses that NetBox has reserved for the tenant: remove parents, or set mode to prefix"},
		{"netbox with the role of reserved addresses", "{netbox: {url: 'http://n', role: vip}}", "spec.netbox: " + unowned},
		{"netbox with the tags of reserved addresses", "{netbox: {url: 'http://n', mode: reserved, tags: [a]}}", "spec.netbox: " + unowned},
		{"an empty parent", "{netbox: {url: 'http://n', parents: [{prefixID: 1}, {}]}}", "spec.netbox.parents[1]: " + oneParent},
		{"two selectors in one parent", "{netbox: {url: 'http://n', parents: [{prefixID: 1, range: {tag: a}}]}}", "spec.netbox.parents[0]: " + oneParent},
		{"an id of 0", "{netbox: {url: 'http://n', parents: [{prefixID: 0}]}}", "spec.netbox.parents[0].prefixID: spec.netbox.parents[0].prefixID in body should be greater than or equal to 1"},
		{"a prefix without a selector", "{netbox: {url: 'http://n', parents: [{prefix: {}}]}}", "spec.netbox.parents[0].prefix: spec.netbox.parents[0].prefix in body should have at least 1 properties"},
		{"a prefix without its mask", "{netbox: {url: 'http://n', parents: [{prefix: {cidr: 192.0.2.0}}]}}", "spec.netbox.parents[0].prefix.cidr: cidr must be a CIDR such as 192.0.2.0/24 or 2001:db8::/64"},
		{"the start of a range with a mask", "{netbox: {url: 'http://n', parents: [{range: {start: 192.0.2.0/24}}]}}", "spec.netbox.parents[0].range.start: start must be the first address of the IP range, without a mask, such as 192.0.2.10"},
		{"a role by its name", "{netbox: {url: 'http://n', parents: [{prefixID: 1}], role: Load Balancer}}", "spec.netbox.role: this must be the slug that NetBox has for it: letters, digits, '-' and '_'"},
		{"too many parents", "{netbox: {url: 'http://n', parents: [" + strings.Repeat("{prefixID: 1}, ", 33) + "]}}", "spec.netbox.parents: Too many: 33: must have at most 32 items"},
		{"half a custom field", "{netbox: {url: 'http://n', field: purelb__claim}}", "spec.netbox.field: field must be the name of a custom field: letters, digits and single underscores"},
		{"certificates without a Secret", "{netbox: {url: 'https://n', caSecret: {key: ca.crt}}}", "spec.netbox.caSecret: caSecret must name the Secret that has the certificates"},
		{"a Secret in another namespace", "{netbox: {url: 'https://n', tokenSecret: {name: other/token}}}", "spec.netbox.tokenSecret.name: name must be the name of a Secret: lower-case letters, digits, '-' and '.'"},
		{"a key with a blank", "{netbox: {url: 'https://n', tokenSecret: {key: user token}}}", "spec.netbox.tokenSecret.key: key must be a key of a Secret: letters, digits, '-', '_' and '.'"},
		{"netbox announced elsewhere", "{netbox: {url: 'http://n', announce: auto}}", `spec.netbox.announce: Unsupported value: "auto": supported values: "local", "remote"`},
		{"external without a name", "{external: {provider: '', announce: local}}", "spec.external.provider: provider must name the program that hands out the addresses"},
		{"external without a place", "{external: {provider: acme}}", "spec.external.announce: Required value"},
		{"external by a relative path", "{external: {provider: acme, announce: local, socket: ipam.sock}}", "spec.external.socket: socket must be an absolute path, such as /var/run/purelb/ipam.sock"},

		{"enforceNamespaces without namespaces", "{remote: {v4pool: POOL}, enforceNamespaces: true}", noFence},
		{"a fence around Services", "{remote: {v4pool: POOL}, enforceNamespaces: true, namespaces: [], serviceSelector: {}}", noFence},
		{"namespaceDefault without namespaces", "{remote: {v4pool: POOL}, namespaceDefault: true, namespaces: []}", noDefault},
		{"the default of Services", "{remote: {v4pool: POOL}, namespaceDefault: true, serviceSelector: {}}", noDefault},
		{"a pattern of namespaces", "{remote: {v4pool: POOL}, namespaces: ['team-*']}", "spec.namespaces[0]: " + namespace},
		{"a namespace in capitals", "{remote: {v4pool: POOL}, namespaces: [a, Team]}", "spec.namespaces[1]: " + namespace},
		{"a priority below the lowest", "{remote: {v4pool: POOL}, priority: -1}", "spec.priority: spec.priority in body should be greater than or equal to 0"},
		{"a priority above the highest", "{remote: {v4pool: POOL}, priority: 1000001}", "spec.priority: spec.priority in body should be less than or equal to 1000000"},
		{"a selector without a key", "{remote: {v4pool: POOL}, namespaceSelector: {matchExpressions: [{operator: Exists}]}}", "spec.namespaceSelector.matchExpressions[0].key: Required value"},

		{"an empty exclusion", "{local: {v4pool: {pool: 192.0.2.0/24, subnet: 192.0.2.0/24, exclude: ['']}}}", "spec.local.v4pool.exclude[0]: " + exclusion},
		{"half an exclusion", "{remote: {v4pools: [POOL, {pool: 198.51.100.0/24, subnet: 198.51.100.0/24, exclude: [198.51.100.7, 198.51.100.8-]}]}}", "spec.remote.v4pools[1].exclude[1]: " + exclusion},
		{"an exclusion by name", "{remote: {v6pool: {pool: '2001:db8::/64', subnet: '2001:db8::/64', exclude: [router]}}}", "spec.remote.v6pool.exclude[0]: " + exclusion},
		{"two exclusions in one item", "{local: {v4pool: {pool: 192.0.2.0/24, subnet: 192.0.2.0/24, exclude: ['192.0.2.1, 192.0.2.3']}}}", "spec.local.v4pool.exclude[0]: " + exclusion},
		{"too long an exclusion", "{local: {v4pool: {pool: 192.0.2.0/24, subnet: 192.0.2.0/24, exclude: ['" + strings.Repeat("1", 97) + "']}}}", "spec.local.v4pool.exclude[0]: Too long: may not be more than 96 bytes"},
		{"too many exclusions", "{local: {v4pool: {pool: 192.0.2.0/24, subnet: 192.0.2.0/24, exclude: [" + strings.Repeat("192.0.2.1, ", 65) + "]}}}", "spec.local.v4pool.exclude: Too many: 65: must have at most 64 items"},

		{"a community of one number", "{remote: {v4pool: POOL}, bgp: {communities: ['65000:1', '65000']}}", "spec.bgp.communities[1]: " + community},
		{"a community of an AS above 65535", "{remote: {v4pool: POOL}, bgp: {communities: ['65536:1']}}", "spec.bgp.communities[0]: " + community},
		{"a community of a value above 65535", "{remote: {v4pool: POOL}, bgp: {communities: ['65000:65536']}}", "spec.bgp.communities[0]: " + community},
		{"a community by a name that is none", "{remote: {v4pool: POOL}, bgp: {communities: [no-export, customer-1, Customer]}}", "spec.bgp.communities[2]: " + community},
		{"a large community of two numbers", "{remote: {v4pool: POOL}, bgp: {largeCommunities: ['65000:1']}}", "spec.bgp.largeCommunities[0]: " + largeOne},
		{"a large community above 32 bits", "{remote: {v4pool: POOL}, bgp: {largeCommunities: ['1:2:4294967296']}}", "spec.bgp.largeCommunities[0]: " + largeOne},
		{"too many communities", "{remote: {v4pool: POOL}, bgp: {communities: [" + strings.Repeat("'65000:1', ", 65) + "]}}", "spec.bgp.communities: Too many: 65: must have at most 64 items"},
		{"a negative MED", "{remote: {v4pool: POOL}, bgp: {med: -1}}", "spec.bgp.med: spec.bgp.med in body should be greater than or equal to 0"},
		{"a node selector with an unknown operator", "{remote: {v4pool: POOL}, bgp: {nodeSelector: {matchExpressions: [{key: rack, operator: Is, values: [a]}]}}}", "spec.bgp.nodeSelector: " + selector},
		{"a node selector without values", "{remote: {v4pool: POOL}, bgp: {nodeSelector: {matchExpressions: [{key: rack, operator: In}]}}}", "spec.bgp.nodeSelector: " + selector},
		{"a node selector with needless values", "{remote: {v4pool: POOL}, bgp: {nodeSelector: {matchExpressions: [{key: rack, operator: Exists, values: [a]}]}}}", "spec.bgp.nodeSelector: " + selector},
		{"no peers", "{remote: {v4pool: POOL}, bgp: {peers: []}}", "spec.bgp.peers: spec.bgp.peers in body should have at least 1 items"},
		{"a peer twice", "{remote: {v4pool: POOL}, bgp: {peers: [tor, tor]}}", `spec.bgp.peers[1]: Duplicate value: "tor"`},
		{"a MED above 32 bits", "{remote: {v4pool: POOL}, bgp: {med: 4294967296}}", "spec.bgp.med: spec.bgp.med in body should be less than or equal to 4294967295"},
		{"no advertisements", "{remote: {v4pool: POOL}, bgp: {advertisements: []}}", "spec.bgp.advertisements: spec.bgp.advertisements in body should have at least 1 items"},
		{"an IPv6 mask for IPv4 routes", "{remote: {v4pool: POOL}, bgp: {advertisements: [{aggregation: /64}]}}", `spec.bgp.advertisements[0].aggregation: spec.bgp.advertisements[0].aggregation in body should match '^/([89]|[12][0-9]|3[0-2])$'`},
		{"too short a mask", "{remote: {v4pool: POOL}, bgp: {advertisements: [{aggregationV6: /7}]}}", `spec.bgp.advertisements[0].aggregationV6: spec.bgp.advertisements[0].aggregationV6 in body should match '^/([89]|[1-9][0-9]|1[01][0-9]|12[0-8])$'`},
		{"an advertisement with a wrong community", "{remote: {v4pool: POOL}, bgp: {advertisements: [{communities: ['65000']}]}}", "spec.bgp.advertisements[0].communities[0]: " + community},
		{"an advertisement with the local preference 0", "{remote: {v4pool: POOL}, bgp: {advertisements: [{localPreference: 0}]}}", "spec.bgp.advertisements[0].localPreference: spec.bgp.advertisements[0].localPreference in body should be greater than or equal to 1"},
		{"a very long path", "{remote: {v4pool: POOL}, bgp: {asPathPrepend: 11}}", "spec.bgp.asPathPrepend: spec.bgp.asPathPrepend in body should be less than or equal to 10"},
		{"a local preference above 32 bits", "{remote: {v4pool: POOL}, bgp: {localPreference: 4294967296}}", "spec.bgp.localPreference: spec.bgp.localPreference in body should be less than or equal to 4294967295"},

		{"a dummy interface with a slash", "agent: {local: {dummyInterface: lb/0}}", "spec.local.dummyInterface: " + ifName},
		{"a dummy interface with a long name", "agent: {local: {extlbint: kube-lb0-of-purelb}}", "spec.local.extlbint: " + ifName},
		{"a dummy interface with the name of a folder", "agent: {local: {dummyInterface: '..'}}", "spec.local.dummyInterface: " + ifName},
		{"an empty interface", "agent: {local: {interfaces: [eth0, '']}}", "spec.local.interfaces[1]: " + ifName},
		{"a repeated interface", "agent: {local: {interfaces: [eth0, eth1, eth0]}}", "spec.local.interfaces: interfaces must not hold the same name twice"},
		{"the dummy interface for local addresses", "agent: {local: {interfaces: [eth0, lb0], dummyInterface: lb0}}", "spec.local: " + dummy},
		{"the default dummy interface for local addresses", "agent: {local: {interfaces: [kube-lb0]}}", "spec.local: " + dummy},
		{"the older dummy interface for local addresses", "agent: {local: {interfaces: [lb1], extlbint: lb1}}", "spec.local: " + dummy},
		{"a number of seconds", "agent: {local: {garpConfig: {initialDelay: '5'}}}", "spec.local.garpConfig.initialDelay: " + duration},
		{"a negative duration", "agent: {local: {garpConfig: {interval: -1s}}}", "spec.local.garpConfig.interval: " + duration},
		{"an empty duration", "agent: {local: {garpConfig: {interval: ''}}}", "spec.local.garpConfig.interval: " + duration},
		{"no packets", "agent: {local: {garpConfig: {count: 0}}}", "spec.local.garpConfig.count: spec.local.garpConfig.count in body should be greater than or equal to 1"},
		{"a storm of packets", "agent: {local: {garpConfig: {count: 11}}}", "spec.local.garpConfig.count: spec.local.garpConfig.count in body should be less than or equal to 10"},
		{"a negative lifetime", "agent: {local: {addressConfig: {localInterface: {validLifetime: -1}}}}", "spec.local.addressConfig.localInterface.validLifetime: validLifetime must not be negative: it is in seconds, 0 for ever, otherwise 60 or more"},
		{"a further network without a mask", "agent: {local: {networks: [203.0.113.0]}}", "spec.local.networks[0]: subnet must be a CIDR such as 192.168.1.0/24 or 2001:db8::/64"},
		{"a further network with too long a mask", "agent: {local: {networks: [203.0.113.0/33]}}", "spec.local.networks[0]: the mask must be from /0 to /32 for IPv4, and from /0 to /128 for IPv6"},
		{"a negative preference", "agent: {local: {addressConfig: {dummyInterface: {preferredLifetime: -1}}}}", "spec.local.addressConfig.dummyInterface.preferredLifetime: preferredLifetime must not be negative: it is in seconds, and at most validLifetime"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := refusals(t, objectOf(t, "v2", tt.spec)); got != tt.want {
				t.Errorf("\n got %s\nwant %s", got, tt.want)
			}
		})
	}
}

// refusals tries to create o. It returns the objections of the API server, by field, without the
// wrong values.
func refusals(t *testing.T, o *unstructured.Unstructured) string {
	t.Helper()
	refused := typed(t).Create(context.Background(), o, client.DryRunAll)
	return oldLimit.ReplaceAllString(apitest.Refusals(t, refused), "may not be more than $1 bytes")
}

// oldLimit is how Kubernetes before 1.32 says that a text is too long.
var oldLimit = regexp.MustCompile(`may not be longer than ([0-9]+)`)
