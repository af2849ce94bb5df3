package allocator_test

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"purelb.io/purelb/internal/testing/apitest"
)

// badGroup is a ServiceGroup with a mistake, and the expected message: after "refused: " the
// message of the API server, otherwise that of the condition Accepted.
type badGroup struct {
	name string
	// group is the name, with a namespace if it is not PureLB's. spec is YAML, after "v1: " if it
	// is for that API version. The default version is purelb.io/v2. want writes purelb-system for
	// PureLB's namespace.
	group, spec, want string
}

func (b badGroup) object(w *world) *unstructured.Unstructured {
	version, spec, found := strings.Cut(b.spec, ": {")
	if !found || version != "v1" && version != "v2" {
		version, spec = "v2", strings.TrimPrefix(b.spec, "{")
	}
	objects, err := apitest.Parse(fmt.Appendf(nil, "apiVersion: purelb.io/%s\nkind: ServiceGroup\nspec: {%s", version, spec))
	if err != nil || len(objects) != 1 {
		w.Fatalf("%s: %v", b.spec, err)
	}
	o := objects[0]
	namespace, name, elsewhere := strings.Cut(b.group, "/")
	if !elsewhere {
		namespace, name = w.namespace, b.group
	}
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

// one is a local group with this range in its v4pools.
func one(pool, subnet, more string) string {
	return fmt.Sprintf("{local: {v4pools: [{pool: '%s', subnet: '%s'%s}]}}", pool, subnet, more)
}

// one6 is a remote group with this range as its v6pool.
func one6(pool, subnet, more string) string {
	return fmt.Sprintf("{remote: {v6pool: {pool: '%s', subnet: '%s'%s}}}", pool, subnet, more)
}

// badGroups all exist at the same time.
var badGroups = []badGroup{
	{
		"no kind", "bad", "{priority: 1}",
		"refused: spec: Invalid value: exactly one of local, remote, netbox or external must be specified (or the flat form: subnet and pool)",
	},
	{
		"two kinds", "bad", "{local: {v4pool: {pool: 10.1.0.0/24, subnet: 10.1.0.0/24}}, netbox: {url: 'http://n'}}",
		"refused: spec: Invalid value: exactly one of local, remote, netbox or external must be specified (or the flat form: subnet and pool)",
	},
	{
		"the flat form without a subnet", "bad", "v1: {name: old, pool: 10.1.0.0/24}",
		"refused: spec: Invalid value: subnet and pool belong together: give both or none",
	},
	{
		"one address", "bad", one("10.1.0.1", "10.1.0.0/24", ""),
		`refused: spec.local.v4pools[0].pool: Invalid value: "10.1.0.1": pool must be a range such as 192.168.1.100-192.168.1.150 or a CIDR such as 2001:db8::100/120; write a single address as 192.168.1.5/32`,
	},
	{
		"nothing", "bad", one("", "10.1.0.0/24", ""),
		`refused: spec.local.v4pools[0].pool: Invalid value: "": pool must be a range such as 192.168.1.100-192.168.1.150 or a CIDR such as 2001:db8::100/120; write a single address as 192.168.1.5/32`,
	},
	{
		"an en dash instead of a hyphen", "bad", one("10.1.0.1–10.1.0.9", "10.1.0.0/24", ""),
		`refused: spec.local.v4pools[0].pool: Invalid value: "10.1.0.1–10.1.0.9": pool must be a range such as 192.168.1.100-192.168.1.150 or a CIDR such as 2001:db8::100/120; write a single address as 192.168.1.5/32`,
	},
	{
		"two ranges in one", "bad", one("10.1.0.1-10.1.0.9,10.1.0.20-10.1.0.29", "10.1.0.0/24", ""),
		`refused: spec.local.v4pools[0].pool: Invalid value: "10.1.0.1-10.1.0.9,10.1.0.20-10.1.0.29": pool must be a range such as 192.168.1.100-192.168.1.150 or a CIDR such as 2001:db8::100/120; write a single address as 192.168.1.5/32`,
	},
	{
		"a zone", "bad", one6("fe80::1%eth0/64", "fe80::/64", ""),
		`refused: spec.remote.v6pool.pool: Invalid value: "fe80::1%eth0/64": pool must be a range such as 192.168.1.100-192.168.1.150 or a CIDR such as 2001:db8::100/120; write a single address as 192.168.1.5/32`,
	},
	{
		"a subnet without a mask", "bad", one("10.1.0.0/24", "10.1.0.0", ""),
		`refused: spec.local.v4pools[0].subnet: Invalid value: "10.1.0.0": subnet must be a CIDR such as 192.168.1.0/24 or 2001:db8::/64`,
	},
	{
		"an aggregation without a slash", "bad", one("10.1.0.0/24", "10.1.0.0/24", ", aggregation: '32'"),
		`refused: spec.local.v4pools[0].aggregation: Invalid value: "32": aggregation must be default (the mask of the subnet) or a mask with its slash, /8 to /32 for IPv4 and /8 to /128 for IPv6`,
	},
	{
		"enforceNamespaces without namespaces", "bad", "{enforceNamespaces: true, remote: {v4pool: {pool: 10.1.0.0/24, subnet: 10.1.0.0/24}}}",
		"refused: spec: Invalid value: enforceNamespaces needs namespaces or namespaceSelector: name the namespaces that it is for",
	},
	{
		"a pattern of namespaces", "bad", "{namespaces: ['team-*'], remote: {v4pool: {pool: 10.1.0.0/24, subnet: 10.1.0.0/24}}}",
		`refused: spec.namespaces[0]: Invalid value: "team-*": namespaces must hold names of namespaces: lower-case letters, digits and '-'; for patterns use namespaceSelector`,
	},
	{
		"a priority below all", "bad", "{priority: -1, remote: {v4pool: {pool: 10.1.0.0/24, subnet: 10.1.0.0/24}}}",
		"refused: spec.priority: Invalid value: -1: spec.priority in body should be greater than or equal to 0",
	},

	{
		"a reversed range", "bad", one("10.1.0.9-10.1.0.1", "10.1.0.0/24", ""),
		`refused: spec.local.v4pools[0].pool: Invalid value: "10.1.0.9-10.1.0.1": the range is reversed: write the lower address first`,
	},
	{
		"a reversed range of IPv6 addresses", "reversed", one6("2001:db8:1::9-2001:db8:1::1", "2001:db8:1::/64", ""),
		`False ParseError: spec.remote.v6pool.pool: "2001:db8:1::9-2001:db8:1::1": the range is reversed; write 2001:db8:1::1-2001:db8:1::9`,
	},
	{
		"a range outside the subnet", "outside", one("10.2.0.1-10.2.0.9", "10.3.0.0/24", ""),
		`refused: spec.local.v4pools[0]: Invalid value: pool must lie inside subnet: make the range smaller or the subnet larger`,
	},
	{
		"a range of IPv6 addresses outside the subnet", "outside", one6("2001:db8:2::1-2001:db8:2::9", "2001:db8:3::/64", ""),
		`False ParseError: spec.remote.v6pool.pool: "2001:db8:2::1-2001:db8:2::9": the range 2001:db8:2::1-2001:db8:2::9 is not inside the subnet 2001:db8:3::/64; make the range smaller or the subnet larger`,
	},
	{
		"a range of two families", "bad", one("10.4.0.1-2001:db8::9", "2001:db8::/64", ""),
		`refused: spec.local.v4pools[0].pool: Invalid value: "10.4.0.1-2001:db8::9": the first and the last address must be of one family`,
	},
	{
		"IPv6 in place of IPv4", "swapped", one("2001:db8:5::/120", "2001:db8:5::/64", ""),
		`False ParseError: spec.local.v4pools[0].pool: "2001:db8:5::/120" is an IPv6 range and spec.local.v4pools[0] is for IPv4; move it to v6pools`,
	},
	{
		"IPv4 in place of IPv6", "swapped6", one6("10.5.0.0/24", "10.5.0.0/24", ""),
		`False ParseError: spec.remote.v6pool.pool: "10.5.0.0/24" is an IPv4 range and spec.remote.v6pool is for IPv6; move it to v4pool`,
	},
	{
		"an IPv4 range in an IPv6 subnet", "bad", one("10.5.1.0/24", "2001:db8:5::/64", ""),
		"refused: spec.local.v4pools[0]: Invalid value: pool and subnet must be of one family",
	},
	{
		"a number above 255", "octet", one("10.6.0.250-10.6.0.300", "10.6.0.0/24", ""),
		`False ParseError: spec.local.v4pools[0].pool: "10.6.0.250-10.6.0.300": "10.6.0.300" is not an IP address: IPv4 field has value >255`,
	},
	{
		"a part of an address", "part", one("10.6.0.20-30", "10.6.0.0/24", ""),
		`False ParseError: spec.local.v4pools[0].pool: "10.6.0.20-30": "30" is only a part of an address; write it in full`,
	},
	{
		"too long a mask", "bad", one("10.6.0.0/33", "10.6.0.0/24", ""),
		`refused: spec.local.v4pools[0].pool: Invalid value: "10.6.0.0/33": the mask must be from /0 to /32 for IPv4, and from /0 to /128 for IPv6`,
	},
	{
		"too long a mask of a subnet", "bad", one6("2001:db8:6::/120", "2001:db8:6::/129", ""),
		`refused: spec.remote.v6pool.subnet: Invalid value: "2001:db8:6::/129": the mask must be from /0 to /32 for IPv4, and from /0 to /128 for IPv6`,
	},
	{
		"leading zeros", "zeros", one("010.6.0.1-010.6.0.9", "10.6.0.0/24", ""),
		`False ParseError: spec.local.v4pools[0].pool: "010.6.0.1-010.6.0.9": "010.6.0.1" has leading zeros, which some programs read as octal; write 10.6.0.1`,
	},
	{
		"IPv4 in IPv6 form", "mapped", one6("::ffff:10.6.0.0/120", "::ffff:10.6.0.0/120", ""),
		`False ParseError: spec.remote.v6pool.pool: "::ffff:10.6.0.0/120": ::ffff:10.6.0.0 is an IPv4 address in IPv6 form; write 10.6.0.0`,
	},
	{
		"multicast addresses", "multicast", one("224.0.0.0/24", "224.0.0.0/24", ""),
		`False ParseError: spec.local.v4pools[0].pool: "224.0.0.0/24": the range 224.0.0.0-224.0.0.255 takes in multicast addresses of 224.0.0.0/4, which no Service can have; leave them out`,
	},
	{
		"loopback addresses", "loopback", one("127.0.0.8-127.0.0.15", "127.0.0.0/8", ""),
		`False ParseError: spec.local.v4pools[0].pool: "127.0.0.8-127.0.0.15": the range 127.0.0.8-127.0.0.15 takes in loopback addresses of 127.0.0.0/8, which no Service can have; leave them out`,
	},
	{
		"the whole internet", "everything", one("0.0.0.0/0", "0.0.0.0/0", ""),
		`False ParseError: spec.local.v4pools[0].pool: "0.0.0.0/0": the range 0.0.0.0-255.255.255.255 takes in addresses of "this network" of 0.0.0.0/8, which no Service can have; leave them out`,
	},
	{
		"link-local addresses", "link", one6("fe80::/64", "fe80::/64", ""),
		`False ParseError: spec.remote.v6pool.pool: "fe80::/64": the range fe80::-fe80::ffff:ffff:ffff:ffff takes in link-local addresses of fe80::/10, which no Service can have; leave them out`,
	},
	{
		"nothing but the network address", "network", one("10.7.0.0/32", "10.7.0.0/24", ""),
		`False ParseError: spec.local.v4pools[0].pool: "10.7.0.0/32" has no address that can be handed out: the subnet 10.7.0.0/24 reserves them; choose others, or write 10.7.0.0-10.7.0.0 to hand them out all the same`,
	},
	{
		"an IPv6 aggregation of IPv4", "long", one("10.7.1.0/24", "10.7.1.0/24", ", aggregation: /64"),
		`False ParseError: spec.local.v4pools[0].aggregation: "/64": a mask of IPv4 must be from /8 to /32 here`,
	},
	{
		"a subnet of half the address space", "half", one6("8000::/64", "8000::/1", ""),
		`False ParseError: spec.remote.v6pool.aggregation: "": this is the mask of the subnet, /1, which is too short; write one from /8 to /128`,
	},
	{
		"an exclusion outside of the range", "stray", one("10.8.0.0/25", "10.8.0.0/24", ", exclude: [10.8.0.200]"),
		`False ParseError: spec.local.v4pools[0].exclude[0]: "10.8.0.200": 10.8.0.200-10.8.0.200 is not inside the range of the pool, 10.8.0.0-10.8.0.127; there is nothing to leave out`,
	},
	{
		"an exclusion that is too large", "greedy", one("10.8.0.0/25", "10.8.0.0/24", ", exclude: [10.8.0.1, 10.8.0.120-10.8.0.140]"),
		`False ParseError: spec.local.v4pools[0].exclude[1]: "10.8.0.120-10.8.0.140": 10.8.0.120-10.8.0.140 is not all inside the range of the pool, 10.8.0.0-10.8.0.127; write 10.8.0.120-10.8.0.127`,
	},
	{
		"an exclusion of the other family", "strange", one("10.8.0.0/25", "10.8.0.0/24", ", exclude: ['2001:db8::1']"),
		`False ParseError: spec.local.v4pools[0].exclude[0]: "2001:db8::1": this is IPv6 and the range of the pool, 10.8.0.0-10.8.0.127, is IPv4; both must be of one family`,
	},
	{
		"a reversed exclusion", "turned", one("10.8.0.0/25", "10.8.0.0/24", ", exclude: [10.8.0.9-10.8.0.3]"),
		`False ParseError: spec.local.v4pools[0].exclude[0]: "10.8.0.9-10.8.0.3": the range is reversed; write 10.8.0.3-10.8.0.9`,
	},
	{
		"a selector that cannot be read", "selector", "{namespaceSelector: {matchExpressions: [{key: a, operator: Near, values: [b]}]}, remote: {v4pool: {pool: 10.9.0.0/24, subnet: 10.9.0.0/24}}}",
		`False ParseError: spec.namespaceSelector: "Near" is not a valid label selector operator: correct it, or remove it to choose without`,
	},
	{
		"a selector of Services without values", "valueless", "{serviceSelector: {matchExpressions: [{key: a, operator: In}]}, remote: {v4pool: {pool: 10.9.0.0/24, subnet: 10.9.0.0/24}}}",
		"False ParseError: spec.serviceSelector: values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty: correct it, or remove it to choose without",
	},
	{
		"a selector with a bad label", "label", "{serviceSelector: {matchLabels: {'a b': c}}, remote: {v4pool: {pool: 10.9.0.0/24, subnet: 10.9.0.0/24}}}",
		`False ParseError: spec.serviceSelector: key: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]'): correct it, or remove it to choose without`,
	},
	{
		"a range beside the oldest form", "beside", "v1: {local: {pool: 10.9.1.0/24, subnet: 10.9.1.0/24, v4pools: [{pool: 10.9.2.0/24, subnet: 10.9.2.0/24}]}}",
		`False ParseError: spec.local.pool: "10.9.1.0/24" stands beside another IPv4 range of the group; move it to v4pool or v4pools`,
	},

	{
		"another group around it", "around", one("10.200.0.0/16", "10.200.0.0/16", ""),
		`False Overlaps: spec.local.v4pools[0].pool: Pool overlaps with already defined pool "default". Overlapping ranges: 10.200.0.0/16 here and 10.200.0.0/22 there; change one of them so that each address is in one range only`,
	},
	{
		"another group within it, in the flat form", "within", "v1: {name: inner, pool: 10.200.1.7/32, subnet: 10.200.0.0/16}",
		`False Overlaps: spec.pool: Pool overlaps with already defined pool "default". Overlapping ranges: 10.200.1.7/32 here and 10.200.0.0/22 there; change one of them so that each address is in one range only`,
	},
	{
		"twice the same addresses", "twice", "{remote: {v4pools: [{pool: 10.10.0.0/24, subnet: 10.10.0.0/24}, {pool: 10.10.0.9-10.10.0.12, subnet: 10.10.0.0/24}]}}",
		"False Overlaps: spec.remote.v4pools[1].pool: Pool overlaps with another pool of the same group. Overlapping ranges: 10.10.0.9-10.10.0.12 here and 10.10.0.0/24 there; change one of them so that each address is in one range only",
	},
	{"the wrong namespace", "elsewhere/lost", one("10.11.0.0/24", "10.11.0.0/24", ""),
		`False OutOfScope: metadata.namespace: ignored, so no Service gets an address from it: namespace "elsewhere" is neither the PureLB install namespace nor in configNamespaces of the chart. Move it to "purelb-system": kubectl get servicegroup lost -n elsewhere -o yaml | sed -e '/^  uid:/d' -e '/^  resourceVersion:/d' -e 's/^  namespace: .*/  namespace: purelb-system/' | kubectl apply -f - && kubectl delete servicegroup lost -n elsewhere`,
	},

	{
		"NetBox without a host", "netbox-host", "{netbox: {url: 'https://:8080/'}}",
		`False ParseError: spec.netbox.url: this is not the URL of a NetBox server: write it as https://netbox.example.com/`,
	},
	{
		"NetBox with too high a port", "netbox-port", "{netbox: {url: 'https://netbox:65536/'}}",
		`False ParseError: spec.netbox.url: the port "65536" is not from 1 to 65535: write it as https://netbox.example.com/`,
	},
	{
		"a parent without a selector", "netbox-nothing", "{netbox: {url: 'https://netbox/', parents: [{prefix: {vrf: ''}}]}}",
		`False ParseError: spec.netbox.parents[0].prefix: this describes nothing: give cidr, vrf, role, tag, tenant or site`,
	},
	{
		"a parent with bits after its mask", "netbox-bits", "{netbox: {url: 'https://netbox/', parents: [{prefix: {cidr: 192.0.2.9/24}}]}}",
		`False ParseError: spec.netbox.parents[0].prefix.cidr: "192.0.2.9/24" has bits after its mask: write 192.0.2.0/24`,
	},
	{
		"a parent twice", "netbox-twice", "{netbox: {url: 'https://netbox/', parents: [{rangeID: 7}, {rangeID: 7}]}}",
		`False ParseError: spec.netbox.parents[1]: this is there once more above: remove one of them`,
	},
	{
		"a socket that is a folder", "folder", "{external: {provider: acme, announce: local, socket: /run/}}",
		`False ParseError: spec.external.socket: "/run/" is not the path of a socket: write one from / on, of at most 107 bytes, such as /var/run/purelb/ipam.sock`,
	},
	{
		"a password in the URL of NetBox", "bad", "{netbox: {url: 'https://me:secret@netbox/'}}",
		`refused: spec.netbox.url: Invalid value: "https://me:secret@netbox/": url must have no user, query or fragment: the token for NetBox is in a Secret, see tokenSecret`,
	},
	{
		"parents in mode reserved", "bad", "{netbox: {url: 'https://netbox/', mode: reserved, parents: [{prefixID: 7}]}}",
		`refused: spec.netbox: Invalid value: mode reserved takes the addresses that NetBox has reserved for the tenant: remove parents, or set mode to prefix`,
	},
	{
		"mode prefix without parents", "bad", "{netbox: {url: 'https://netbox/', mode: prefix}}",
		`refused: spec.netbox: Invalid value: mode prefix makes addresses in prefixes and IP ranges of NetBox: name at least one in parents`,
	},
	{
		"the tags of reserved addresses", "bad", "{netbox: {url: 'https://netbox/', tags: [k8s]}}",
		`refused: spec.netbox: Invalid value: status, role and tags are for addresses that PureLB makes, and in mode reserved it makes none: remove them, or name parents`,
	},
	{
		"two selectors in one parent", "bad", "{netbox: {url: 'https://netbox/', parents: [{prefixID: 7, rangeID: 7}]}}",
		`refused: spec.netbox.parents[0]: Invalid value: exactly one of prefixID, rangeID, prefix and range must be given`,
	},

	{
		"ClusterIPs", "cluster-ips", "{remote: {v4pool: {pool: 10.96.0.0/24, subnet: 10.96.0.0/24}}}",
		`False ClusterNetwork: "10.96.0.0/24" is inside the Service network 10.96.0.0/16, so no Service can have any of its addresses; choose a range that nothing else uses`,
	},
	{
		"some ClusterIPs", "some-cluster-ips", "{remote: {v4pool: {pool: 10.96.255.0-10.97.0.255, subnet: 10.96.0.0/15}}}",
		`True Accepted: "10.96.255.0-10.97.0.255" overlaps the Service network 10.96.0.0/16, whose addresses are not handed out; choose a range that nothing else uses`,
	},
	{
		"the name of another group", "second", "v1: {name: default, pool: 10.12.0.0/24, subnet: 10.12.0.0/24}",
		`True Accepted: spec.name: Duplicate definition of pool default: the name belongs to ServiceGroup "default", so Services can call this group by "second" only; choose another name or remove it`,
	},
	{
		"everything excluded", "empty", one("10.12.1.0/28", "10.12.1.0/24", ", exclude: [10.12.1.0/28]"),
		`True Accepted: spec.local.v4pools[0].exclude: takes in every address of "10.12.1.0/28", so none is handed out: leave some of them out, or write drain: true if this is meant`,
	},
	{
		"both ways to choose", "both", "{remote: {multiPool: true, balancePools: true, v4pools: [{pool: 10.12.2.0/24, subnet: 10.12.2.0/24}, {pool: 10.12.3.0/24, subnet: 10.12.3.0/24}]}}",
		`True Accepted: spec.remote.balancePools: is mutually exclusive with multiPool, so Services get addresses from this group only when they turn multiPool off, by the annotation purelb.io/multi-pool: "false"; remove one of them`,
	},
	{
		"a priority without effect", "unseen", "{autoAssign: false, priority: 7, remote: {v4pool: {pool: 10.12.4.0/24, subnet: 10.12.4.0/24}}}",
		"True Accepted: spec.priority: is not in effect, because autoAssign is false: Services get addresses from this group only when they ask for it; remove one of them",
	},
	{
		"an aggregation that is too short", "wide", "{remote: {v4pool: {pool: 10.12.5.0/24, subnet: 10.12.5.0/24, aggregation: /16}}}",
		`True Accepted: spec.remote.v4pool.aggregation: /16 is shorter than the mask of the subnet 10.12.5.0/24 and puts a route for all of 10.12.0.0/16 on every node: write "default" for the mask of the subnet, or a longer one`,
	},
	{
		"several mistakes", "several", "{remote: {v6pools: [{pool: '2001:db8:13::/64', subnet: '2001:db8:14::/64'}], v6pool: {pool: '2001:db8::9-2001:db8::1', subnet: '2001:db8::/64'}}}",
		`False ParseError: spec.remote.v6pools[0].pool: "2001:db8:13::/64": the range 2001:db8:13::-2001:db8:13:0:ffff:ffff:ffff:ffff is not inside the subnet 2001:db8:14::/64; make the range smaller or the subnet larger; spec.remote.v6pool.pool: "2001:db8::9-2001:db8::1": the range is reversed; write 2001:db8::1-2001:db8::9`,
	},
}
