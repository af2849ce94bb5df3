package allocator_test

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/internal/service"
)

// fixtures are the groups for the Services of badServices. Groups without a namespace are
// in PureLB's namespace.
const fixtures = `
{apiVersion: purelb.io/v2, kind: ServiceGroup, metadata: {name: default}, spec: {remote: {allowMultiPool: true, v4pool: {pool: 10.200.0.0/22, subnet: 10.200.0.0/22}}}}
---
{apiVersion: purelb.io/v2, kind: ServiceGroup, metadata: {name: full}, spec: {remote: {v4pool: {pool: 192.0.2.0/28, subnet: 192.0.2.0/28}}}}
---
{apiVersion: purelb.io/v2, kind: ServiceGroup, metadata: {name: six}, spec: {remote: {allowMultiPool: true, v6pool: {pool: '2001:db8:1::/64', subnet: '2001:db8:1::/64'}}}}
---
{apiVersion: purelb.io/v2, kind: ServiceGroup, metadata: {name: old}, spec: {remote: {v4pool: {pool: 198.51.100.0/25, subnet: 198.51.100.0/24, drain: true}}}}
---
{apiVersion: purelb.io/v2, kind: ServiceGroup, metadata: {name: holes}, spec: {remote: {v4pool: {pool: 203.0.113.0/24, subnet: 203.0.113.0/24, exclude: [203.0.113.8/29]}}}}
---
{apiVersion: purelb.io/v2, kind: ServiceGroup, metadata: {name: office}, spec: {local: {v4pool: {pool: 10.210.0.128/25, subnet: 10.210.0.0/24}}}}
---
{apiVersion: purelb.io/v2, kind: ServiceGroup, metadata: {name: racks}, spec: {local: {multiPool: true, v4pools: [{pool: 10.211.0.0/24, subnet: 10.211.0.0/24}, {pool: 10.212.0.0/24, subnet: 10.212.0.0/24}]}}}
---
{apiVersion: purelb.io/v2, kind: ServiceGroup, metadata: {name: uplinks}, spec: {remote: {multiPool: true, v4pools: [{pool: 10.213.0.0/24, subnet: 10.213.0.0/24}, {pool: 10.214.0.0/24, subnet: 10.214.0.0/24}], v6pool: {pool: '2001:db8:2::/64', subnet: '2001:db8:2::/64'}}}}
---
{apiVersion: purelb.io/v2, kind: ServiceGroup, metadata: {name: bank}, spec: {namespaces: [bank], enforceNamespaces: true, remote: {v4pool: {pool: 10.215.0.0/24, subnet: 10.215.0.0/24}}}}
---
{apiVersion: purelb.io/v2, kind: ServiceGroup, metadata: {name: torn-a}, spec: {namespaces: [torn], remote: {v4pool: {pool: 10.216.0.0/24, subnet: 10.216.0.0/24}}}}
---
{apiVersion: purelb.io/v2, kind: ServiceGroup, metadata: {name: torn-b}, spec: {namespaces: [torn], remote: {v4pool: {pool: 10.217.0.0/24, subnet: 10.217.0.0/24}}}}
---
{apiVersion: purelb.io/v2, kind: ServiceGroup, metadata: {name: strict-a}, spec: {namespaces: [strict], enforceNamespaces: true, remote: {v4pool: {pool: 10.218.0.0/24, subnet: 10.218.0.0/24}}}}
---
{apiVersion: purelb.io/v2, kind: ServiceGroup, metadata: {name: strict-b}, spec: {namespaces: [strict], remote: {v4pool: {pool: 10.219.0.0/24, subnet: 10.219.0.0/24}}}}
---
{apiVersion: purelb.io/v2, kind: ServiceGroup, metadata: {name: plain}, spec: {remote: {v4pools: [{pool: 10.221.0.0/24, subnet: 10.221.0.0/24}, {pool: 10.222.0.0/24, subnet: 10.222.0.0/24}]}}}
---
{apiVersion: purelb.io/v2, kind: ServiceGroup, metadata: {name: typed}, spec: {serviceSelector: {matchLabels: {tier: gold}}, autoAssign: false, remote: {v4pool: {pool: 10.220.0.0/24, subnet: 10.220.0.0/24}}}}
---
{apiVersion: purelb.io/v2, kind: ServiceGroup, metadata: {namespace: bank, name: branch}, spec: {remote: {v4pool: {pool: 10.223.0.0/24, subnet: 10.223.0.0/24}}}}
---
{apiVersion: purelb.io/v2, kind: ServiceGroup, metadata: {namespace: torn, name: branch}, spec: {remote: {v4pool: {pool: 10.224.0.0/24, subnet: 10.224.0.0/24}}}}
`

// badService is a Service with a mistake.
type badService struct {
	name string
	svc  *corev1.Service
	// later are merge patches, applied in order, and then is any other change. They introduce the
	// mistake after the allocation. found says that the Service exists before the allocator starts.
	later []string
	then  func(*world)
	found bool
	// more is how many writes the Service costs, besides the one that reports the mistake. vain
	// allows one more failed write: the allocator writes the spec while the cache lags behind.
	more int
	vain int
	// want is the text of the condition, with ADDRESS for the allocated address. Otherwise it is
	// "refused: " and the API server's message, or "nothing".
	want string
}

func asksFor(addresses string) func(*corev1.Service) {
	return annotated(service.AnnotationAddresses, addresses)
}

func bySpec(address string) func(*corev1.Service) {
	return func(svc *corev1.Service) { svc.Spec.LoadBalancerIP = address } // deprecated, but users still set it
}

func ofClass(class string) func(*corev1.Service) {
	return func(svc *corev1.Service) { svc.Spec.LoadBalancerClass = &class }
}

func families(f ...corev1.IPFamily) func(*corev1.Service) {
	return func(svc *corev1.Service) { svc.Spec.IPFamilies = f }
}

// annotate returns a merge patch that sets an annotation.
func annotate(name, value string) string {
	return fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, name, value)
}

const (
	prefer  = corev1.IPFamilyPolicyPreferDualStack
	require = corev1.IPFamilyPolicyRequireDualStack
)

// badServices returns the Services in the order of their creation. All of them stay.
func badServices() []badService {
	return []badService{
		// Addresses.
		{name: "a word for an address", svc: balancer("word", asksFor("nonsense")),
			want: `False InvalidRequest: annotation purelb.io/addresses: "nonsense" is not an IP address; write one address, or one of each family separated by a comma`},
		{name: "a number above 255", svc: balancer("octet", asksFor("10.200.3.300")),
			want: `False InvalidRequest: annotation purelb.io/addresses: "10.200.3.300" is not an IP address; write one address, or one of each family separated by a comma`},
		{name: "leading zeros", svc: balancer("zeros", asksFor("010.200.3.1")),
			want: `False InvalidRequest: annotation purelb.io/addresses: "010.200.3.1" is not an IP address; write one address, or one of each family separated by a comma`},
		{name: "a CIDR", svc: balancer("cidr", asksFor("10.200.3.0/24")),
			want: `False InvalidRequest: annotation purelb.io/addresses: "10.200.3.0/24" is not an IP address; write one address, or one of each family separated by a comma`},
		{name: "a range", svc: balancer("range", asksFor("10.200.3.1-10.200.3.9")),
			want: `False InvalidRequest: annotation purelb.io/addresses: "10.200.3.1-10.200.3.9" is not an IP address; write one address, or one of each family separated by a comma`},
		{name: "digits of another script", svc: balancer("digits", asksFor("１０.200.3.1")),
			want: `False InvalidRequest: annotation purelb.io/addresses: "１０.200.3.1" is not an IP address; write one address, or one of each family separated by a comma`},
		{name: "text from right to left, and an end", svc: balancer("bidi", asksFor("\u202e10.200.3.1\x00\x1b[2J")),
			want: `False InvalidRequest: annotation purelb.io/addresses: "\u202e10.200.3.1\x00\x1b[2J" is not an IP address; write one address, or one of each family separated by a comma`},
		{name: "an extra comma", svc: balancer("comma", asksFor("10.200.3.7,")),
			want: "False InvalidRequest: annotation purelb.io/addresses: an address is missing; write one address, or one of each family separated by a comma"},
		{name: "two addresses of a family", svc: balancer("two", asksFor("10.200.3.7, 10.200.3.8")),
			want: "False InvalidRequest: annotation purelb.io/addresses: 10.200.3.7 and 10.200.3.8 are both IPv4; write one address, or one of each family separated by a comma"},
		{name: "twice the same address, once in another form", svc: balancer("same", asksFor("10.200.3.7,::ffff:10.200.3.7")),
			want: "False InvalidRequest: annotation purelb.io/addresses: 10.200.3.7 and 10.200.3.7 are both IPv4; write one address, or one of each family separated by a comma"},
		{name: "a zone", svc: balancer("zone", asksFor("2001:db8:1::5%eth0")),
			want: `False InvalidRequest: annotation purelb.io/addresses: "2001:db8:1::5%eth0" has a zone, and service addresses have none; write one address, or one of each family separated by a comma`},
		{name: "a very long address", svc: balancer("long", asksFor(strings.Repeat("10.", 70_000))),
			want: `False InvalidRequest: annotation purelb.io/addresses: "10.10.10.10.10.10.10.10.10.10.10.10.10.10.10.10.10.10.10.10.10.10.10.10.10.10.10"... is not an IP address; write one address, or one of each family separated by a comma`},
		{name: "very many addresses", svc: balancer("many", asksFor(strings.Repeat("10.200.3.7,", 20_000))),
			want: "False InvalidRequest: annotation purelb.io/addresses: 10.200.3.7 and 10.200.3.7 are both IPv4; write one address, or one of each family separated by a comma"},
		{name: "more than the API server takes", svc: balancer("huge", asksFor(strings.Repeat("1", 300_000))),
			want: "refused: metadata.annotations: Too long: may not be more than 262144 bytes"},
		{name: "an IPv4 address in IPv6 form", svc: balancer("mapped", asksFor("::ffff:10.200.3.9")),
			want: "True Allocated: Assigned 10.200.3.9 from pool default"},
		{name: "an address in no pool", svc: balancer("outside", asksFor("8.8.8.8")),
			want: "False AddressOutsidePools: 8.8.8.8 was asked for, but is in no pool of any usable ServiceGroup; ask for another address, or add a pool that has it"},
		{name: "no address at all", svc: balancer("unspecified", asksFor("0.0.0.0")),
			want: "False AddressOutsidePools: 0.0.0.0 was asked for, but is in no pool of any usable ServiceGroup; ask for another address, or add a pool that has it"},
		{name: "an address of a node", svc: balancer("node", asksFor("10.200.3.200")),
			want: "False AddressReserved: 10.200.3.200 was asked for, but is not given to Services, because it is an address of node n1; ask for another address"},
		{name: "the default gateway of a node", svc: balancer("gateway", asksFor("10.200.3.1")),
			want: "False AddressReserved: 10.200.3.1 was asked for, but is not given to Services, because it is the default gateway of node n1; ask for another address"},
		{name: "an address in quarantine", svc: balancer("quarantined", asksFor("10.200.3.7")),
			want: "False AddressReserved: 10.200.3.7 was asked for, but is not given to Services, because it is an address of another machine, 02:00:00:00:00:07, as node n1 reports; ask for another address"},
		{name: "a ClusterIP", svc: balancer("cluster-ip", asksFor("10.96.255.1")),
			want: "False AddressReserved: 10.96.255.1 was asked for, but is not given to Services, because it is an address of the Service network 10.96.0.0/16; ask for another address"},
		{name: "the address of the network", svc: balancer("network", asksFor("10.200.0.0")),
			want: `False AddressReserved: 10.200.0.0 was asked for, but is the network address of 10.200.0.0/22; ask for another address, or write the range of ServiceGroup "default" as its first and last address, such as 10.200.0.0-10.200.3.255`},
		{name: "an address in use", svc: balancer("taken", asksFor("10.200.3.9")),
			want: "False AddressInUse: 10.200.3.9 was asked for, but is already in use by default/mapped; ask for another address"},
		{name: "an excluded address", svc: balancer("excluded", asksFor("203.0.113.9")),
			want: `False AddressExcluded: 203.0.113.9 was asked for, but ServiceGroup "holes" excludes 203.0.113.8-203.0.113.15; ask for another address`},
		{name: "an address of a drained range", svc: balancer("drained", asksFor("198.51.100.7")),
			want: `False RangeDraining: 198.51.100.7 was asked for, but the range 198.51.100.0/25 of ServiceGroup "old" is being drained and gives out nothing new; ask for another address`},
		{name: "an address of another family", svc: balancer("family", asksFor("2001:db8:1::5")),
			want: "False WrongFamily: 2001:db8:1::5 was asked for, but the Service has no IPv6: its ipFamilies are IPv4; change ipFamilies and ipFamilyPolicy, or ask for another address"},
		{name: "an address of each family for a Service of one", svc: balancer("families", asksFor("2001:db8:1::5,10.200.3.77")),
			want: "True Allocated: Assigned 10.200.3.77 from pool default; 2001:db8:1::5 was asked for too, but the Service has no IPv6: its ipFamilies are IPv4; change ipFamilies and ipFamilyPolicy, or ask for 10.200.3.77 only"},
		{name: "an address behind a fence", svc: balancer("fence", asksFor("10.215.0.7")),
			want: `False NamespaceDenied: 10.215.0.7 was asked for: namespace denied: ServiceGroup "bank" is for its own namespaces only (enforceNamespaces), and "default" is none of them; use another, or add the namespace to that group`},
		{name: "an address of a group that is not accepted", svc: balancer("unused", asksFor("10.10.0.10")),
			want: "False AddressOutsidePools: 10.10.0.10 was asked for, but is in no pool of any usable ServiceGroup; ask for another address, or add a pool that has it"},
		{name: "an address from one group and another group", svc: balancer("group", asksFor("203.0.113.77"), inGroup("default")),
			want: "True Allocated: Assigned 203.0.113.77 from pool holes"},
		{name: "an address from one group and an unknown group", svc: balancer("group-2", asksFor("203.0.113.78"), inGroup("nowhere")),
			want: "True Allocated: Assigned 203.0.113.78 from pool holes"},

		// spec.loadBalancerIP.
		{name: "a word for loadBalancerIP", svc: balancer("by-word", bySpec("balancer.example.com")),
			want: `False InvalidRequest: spec.loadBalancerIP: "balancer.example.com" is not an IP address; write one address, or better the annotation purelb.io/addresses instead`},
		{name: "two addresses in loadBalancerIP", svc: balancer("by-two", bySpec("10.200.3.7,2001:db8:1::7")),
			want: `False InvalidRequest: spec.loadBalancerIP: "10.200.3.7,2001:db8:1::7" is not an IP address; write one address, or better the annotation purelb.io/addresses instead`},
		{name: "loadBalancerIP with spaces works", svc: balancer("by-field", bySpec(" 10.200.3.20 ")),
			want: "True Allocated: Assigned 10.200.3.20 from pool default"},
		{name: "loadBalancerIP beside the annotation", svc: balancer("by-both", bySpec("8.8.8.8"), asksFor("10.200.3.21")),
			want: "True Allocated: Assigned 10.200.3.21 from pool default"},

		// Groups.
		{name: "an unknown group", svc: balancer("unknown", inGroup("nowhere")),
			want: `False UnknownPool: unknown pool "nowhere": there is no ServiceGroup of that name; create it, or change the annotation purelb.io/service-group`},
		{name: "a group of spaces", svc: balancer("blank", inGroup("  ")),
			want: "True Allocated: Assigned ADDRESS from pool default"},
		{name: "two groups", svc: balancer("two-groups", inGroup("default,full")),
			want: `False UnknownPool: unknown pool "default,full": there is no ServiceGroup of that name; create it, or change the annotation purelb.io/service-group`},
		{name: "a group with a path", svc: balancer("path", inGroup("../../secrets")),
			want: `False UnknownPool: unknown pool "../../secrets": there is no ServiceGroup of that name; create it, or change the annotation purelb.io/service-group`},
		{name: "a group in another script", svc: balancer("script", inGroup("дефолт\n")),
			want: `False UnknownPool: unknown pool "дефолт": there is no ServiceGroup of that name; create it, or change the annotation purelb.io/service-group`},
		{name: "a very long group", svc: balancer("long-group", inGroup(strings.Repeat("x", 100_000))),
			want: `False UnknownPool: unknown pool "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"...: there is no ServiceGroup of that name; create it, or change the annotation purelb.io/service-group`},
		{name: "a group that is not accepted", svc: balancer("refused", inGroup("reversed")),
			want: `False NoUsablePool: no usable pool: ServiceGroup "reversed" is not accepted (ParseError): spec.remote.v6pool.pool: "2001:db8:1::9-2001:db8:1::1": the range is reversed; write 2001:db8:1::1-2001:db8:1::9`},
		{name: "a group in the wrong namespace", svc: balancer("lost", inGroup("lost")),
			want: `False UnknownPool: unknown pool "lost": metadata.namespace: ignored, so no Service gets an address from it: namespace "elsewhere" is neither the PureLB install namespace nor in configNamespaces of the chart. Move it to "purelb-system": kubectl get servicegroup lost -n elsewhere -o yaml | sed -e '/^  uid:/d' -e '/^  resourceVersion:/d' -e 's/^  namespace: .*/  namespace: purelb-system/' | kubectl apply -f - && kubectl delete servicegroup lost -n elsewhere`},
		{name: "a group of several namespaces", svc: balancer("several", inGroup("branch")),
			want: `False UnknownPool: unknown pool "branch": several namespaces have a ServiceGroup of that name; write one of bank/branch, torn/branch in the annotation purelb.io/service-group`},
		{name: "a group without the family", svc: balancer("no-six", inGroup("default"), ipv6),
			want: `False NoUsablePool: pool "default" has no IPv6 range: no available addresses for default/no-six; add one, or change the ipFamilies of the Service`},
		{name: "a group that is full", svc: balancer("exhausted", inGroup("full")),
			want: `False Exhausted: pool "full" exhausted: no available addresses for default/exhausted (IPv4)`},
		{name: "a group that is drained", svc: balancer("drain", inGroup("old")),
			want: `False Exhausted: pool "old" exhausted: no available addresses for default/drain (IPv4); 1 of its ranges are being drained`},
		{name: "a group that excludes everything", svc: balancer("empty", inGroup("empty")),
			want: `False Exhausted: pool "empty" exhausted: no available addresses for default/empty (IPv4)`},
		{name: "a group behind a fence", svc: balancer("stranger", inGroup("bank")),
			want: `False NamespaceDenied: namespace denied: ServiceGroup "bank" is for its own namespaces only (enforceNamespaces), and "default" is none of them; use another, or add the namespace to that group`},
		{name: "a group outside the fence", svc: balancer("tempted", in("bank"), inGroup("default")),
			want: `False NamespaceDenied: namespace denied: Services of namespace "bank" may use only ServiceGroups that serve it (enforceNamespaces), and "default" does not; use another, or add the namespace to that group`},
		{name: "an open namespace with two groups", svc: balancer("torn", in("torn")),
			want: "True Allocated: Assigned ADDRESS from pool default"},
		{name: "a fenced namespace with two groups", svc: balancer("strict", in("strict")),
			want: `False AmbiguousNamespaceDefault: ambiguous namespace default: ServiceGroups "strict-a", "strict-b" are for Service strict/strict, and none sets namespaceDefault; set it on one of them, or name one with the annotation purelb.io/service-group`},

		// Families.
		{name: "both families of a group that has one", svc: balancer("require", dualStack(require)),
			want: `False NoUsablePool: pool "default" has no IPv6 range: no available addresses for default/require; add one, or change the ipFamilies of the Service`},
		{name: "preferably both families, of a group that has one", svc: balancer("prefer", dualStack(prefer)),
			want: `True PartiallyAllocated: Assigned ADDRESS from pool default; pool "default" has no IPv6 range: no available addresses for default/prefer; add one, or change the ipFamilies of the Service`},
		{name: "preferably both families, of a full group", svc: balancer("prefer-full", inGroup("full"), dualStack(prefer)),
			want: `False Exhausted: pool "full" exhausted: no available addresses for default/prefer-full (IPv4); pool "full" has no IPv6 range: no available addresses for default/prefer-full; add one, or change the ipFamilies of the Service`},
		{name: "a family twice", svc: balancer("twice", families("IPv4", "IPv4")),
			want: `refused: spec.ipFamilies[1]: Duplicate value: "IPv4"`},
		{name: "an unknown family", svc: balancer("five", families("IPv5")),
			want: `refused: spec.ipFamilies[0]: Unsupported value: "IPv5": supported values: "IPv4", "IPv6"`},

		// Ports, policies and classes.
		{name: "a repeated port", svc: balancer("port", keyed("ports", "80/TCP", "80/TCP"), func(svc *corev1.Service) { svc.Spec.AllocateLoadBalancerNodePorts = new(bool) }),
			want: `refused: spec.ports[1]: Duplicate value: {"Name":"","Protocol":"TCP","AppProtocol":null,"Port":80,"TargetPort":0,"NodePort":0}`},
		{name: "an unknown policy", svc: balancer("policy", func(svc *corev1.Service) { svc.Spec.ExternalTrafficPolicy = "Nearby" }),
			want: `refused: spec.externalTrafficPolicy: Unsupported value: "Nearby": supported values: "Cluster", "Local"`},
		{name: "the policy Local of a local address", svc: balancer("local", inGroup("office"), localPolicy), more: 1, vain: 1,
			want: "True Allocated: Assigned 10.210.0.128 from pool office"},
		{name: "the policy Local of a shared address", svc: balancer("local-key", keyed("local", "80/TCP"), localPolicy), more: 1, vain: 1,
			want: "True Allocated: Assigned ADDRESS from pool default"},
		{name: "a foreign class, and only mistakes", svc: balancer("foreign", ofClass("example.com/lb"), inGroup("nowhere"), asksFor("nonsense")), more: -1, want: "nothing"},
		{name: "an invalid class", svc: balancer("class", ofClass("purelb")), more: -1,
			want: "nothing"},

		// Sharing.
		{name: "a key alone", svc: balancer("web", keyed("key", "80/TCP", "443/TCP"), asksFor("10.200.3.30")),
			want: "True Allocated: Assigned 10.200.3.30 from pool default"},
		{name: "a port in use at a shared address", svc: balancer("web-2", keyed("key", "443/TCP")),
			want: "False PortConflict: 10.200.3.30 has the same sharing key, but its port 443/TCP is already in use by default/web; change the port of one of the two Services, or the annotation purelb.io/allow-shared-ip of this one"},
		{name: "a port in use at a shared address that is asked for", svc: balancer("web-3", keyed("key", "80/TCP"), asksFor("10.200.3.30")),
			want: "False PortConflict: 10.200.3.30 has the same sharing key, but its port 80/TCP is already in use by default/web; change the port of one of the two Services, or the annotation purelb.io/allow-shared-ip of this one"},
		{name: "another key at an address", svc: balancer("web-4", keyed("kez", "81/TCP"), asksFor("10.200.3.30")),
			want: "False AddressInUse: 10.200.3.30 was asked for, but is already in use by default/web, which has another sharing key or none; ask for another address, or give both Services the same annotation purelb.io/allow-shared-ip"},
		{name: "the key of another namespace", svc: balancer("web-5", in("elsewhere"), keyed("key", "81/TCP"), asksFor("10.200.3.30")),
			want: "False SharedInAnotherNamespace: 10.200.3.30 was asked for, but is already in use by default/web of another namespace, and its ServiceGroup does not have shareAcrossNamespaces; ask for another address"},
		{name: "a key of spaces", svc: balancer("web-6", keyed("  ", "81/TCP"), asksFor("10.200.3.30")),
			want: "False AddressInUse: 10.200.3.30 was asked for, but is already in use by default/web, which has another sharing key or none; ask for another address, or give both Services the same annotation purelb.io/allow-shared-ip"},
		{name: "a very long key", svc: balancer("web-7", keyed(strings.Repeat("key", 50_000), "81/TCP"), asksFor("10.200.3.30")),
			want: "False AddressInUse: 10.200.3.30 was asked for, but is already in use by default/web, which has another sharing key or none; ask for another address, or give both Services the same annotation purelb.io/allow-shared-ip"},
		{name: "a key in a /64", svc: balancer("six", inGroup("six"), ipv6, keyed("six", "53/UDP")),
			want: "True Allocated: Assigned 2001:db8:1::1 from pool six"},
		{name: "a port in use in a /64", svc: balancer("six-2", inGroup("six"), ipv6, keyed("six", "53/UDP")),
			want: "False PortConflict: 2001:db8:1::1 has the same sharing key, but its port 53/UDP is already in use by default/six; change the port of one of the two Services, or the annotation purelb.io/allow-shared-ip of this one"},
		{name: "the same port of the other protocol", svc: balancer("six-3", inGroup("six"), ipv6, keyed("six", "53/TCP")),
			want: "True Allocated: Assigned 2001:db8:1::1 from pool six"},
		{name: "a key that changes while others share", svc: balancer("six-4", inGroup("six"), ipv6, keyed("six", "54/TCP")), later: []string{annotate(service.AnnotationSharing, "seven")}, more: 1,
			want: `False SharingConflict: Assigned 2001:db8:1::1 from pool six; 2001:db8:1::1 is shared with default/six, which has another sharing key; give both Services the same annotation purelb.io/allow-shared-ip, or set the annotation purelb.io/re-evaluate: "true" to get another address`},
		{name: "a port that collides later", svc: balancer("six-5", inGroup("six"), ipv6, keyed("six", "55/TCP")),
			later: []string{`{"spec":{"ports":[{"name":"p0","port":53,"protocol":"TCP"}]}}`}, more: 1,
			want: `False PortConflict: Assigned 2001:db8:1::1 from pool six; port 53/TCP of 2001:db8:1::1 is already in use by default/six-3; change the port of one of the two Services, or set the annotation purelb.io/re-evaluate: "true" to get another address`},

		// One address of every range.
		{name: "every range of a group with two ways to choose", svc: balancer("modes", inGroup("both")),
			want: `False MultiPoolRefused: multi-pool and balancePools allocation are mutually exclusive for pool both; turn one off in the group, or set the annotation purelb.io/multi-pool: "false"`},
		{name: "every range, by annotation, of such a group", svc: balancer("modes-2", inGroup("both"), annotated(service.AnnotationMultiPool, "true")),
			want: `False MultiPoolRefused: multi-pool and balancePools allocation are mutually exclusive for pool both; turn one off in the group, or set the annotation purelb.io/multi-pool: "false"`},
		{name: "every range, by annotation, of a group that does not offer it", svc: balancer("modes-4", inGroup("plain"), annotated(service.AnnotationMultiPool, "true")),
			want: `False MultiPoolRefused: Assigned 10.221.0.1 from pool plain; the annotation purelb.io/multi-pool: "true" is not in effect, because ServiceGroup "plain" has neither multiPool nor allowMultiPool; set allowMultiPool: true in the group, or remove the annotation`},
		{name: "a value that is not true is false", svc: balancer("modes-3", inGroup("both"), annotated(service.AnnotationMultiPool, "yes please")),
			want: "True Allocated: Assigned 10.12.2.1 from pool both"},
		{name: "every range, with no node in their networks", svc: balancer("homeless", inGroup("racks")),
			want: `False MultiPoolRefused: no IPs allocated for service default/homeless: 2 ranges skipped (no active nodes); no available addresses in pool "racks" (IPv4)`},
		{name: "every range with a key", svc: balancer("key", inGroup("uplinks"), keyed("uplink", "80/TCP")),
			want: `False MultiPoolRefused: multi-pool allocation from pool uplinks and the annotation purelb.io/allow-shared-ip are mutually exclusive; remove the annotation, or set purelb.io/multi-pool: "false"`},
		{name: "every range of two groups", svc: balancer("groups", inGroup("default")), more: 2,
			later: []string{
				`{"metadata":{"annotations":{"purelb.io/service-group":"six"}},"spec":{"ipFamilyPolicy":"PreferDualStack","ipFamilies":["IPv4","IPv6"]}}`,
				annotate(service.AnnotationMultiPool, "true"),
			},
			want: `False MultiPoolMismatch: Assigned ADDRESS, 2001:db8:1::2 from pool default, six; multi-pool allocation for service default/groups refused: its addresses would be from several groups ("six", "default"); set the annotation purelb.io/re-evaluate: "true" to get all of them from one, or purelb.io/multi-pool: "false"`},

		// Later changes by the user, and changes by others.
		{name: "another group, later", svc: balancer("mind"), later: []string{annotate(service.AnnotationGroup, "holes")}, more: 1,
			want: `True Allocated: Assigned ADDRESS from pool default; the annotation purelb.io/service-group is not in effect, as a Service keeps the addresses that it has; set purelb.io/re-evaluate: "true" to have them replaced`},
		{name: "nonsense, later", svc: balancer("mind-2"), later: []string{annotate(service.AnnotationAddresses, "?")}, more: 1,
			want: `False InvalidRequest: Assigned ADDRESS from pool default; annotation purelb.io/addresses: "?" is not an IP address; write one address, or one of each family separated by a comma`},
		{name: "an address in use, later", svc: balancer("mind-3"), later: []string{annotate(service.AnnotationAddresses, "10.200.3.9")}, more: 1,
			want: "False AddressInUse: Assigned ADDRESS from pool default; 10.200.3.9 was asked for, but is already in use by default/mapped; ask for another address"},
		{name: "re-evaluate with another value", svc: balancer("mind-4"), later: []string{annotate(service.AnnotationReevaluate, "please")}, more: 0,
			want: "True Allocated: Assigned ADDRESS from pool default"},
		{name: "re-evaluate into nothing", svc: balancer("mind-5"), more: 1,
			later: []string{`{"metadata":{"annotations":{"purelb.io/re-evaluate":"true","purelb.io/service-group":"nowhere"}}}`},
			want:  `False UnknownPool: Assigned ADDRESS from pool default; unknown pool "nowhere": there is no ServiceGroup of that name; create it, or change the annotation purelb.io/service-group`},
		{name: "a status written by hand", svc: balancer("forged"), later: []string{`{"status":{"loadBalancer":{"ingress":[{"ip":"10.200.3.9"}]}}}`}, more: 1,
			want: "True Allocated: Assigned ADDRESS from pool default"},
		{name: "an owner annotation removed by hand", svc: balancer("unbranded"), later: []string{`{"metadata":{"annotations":{"purelb.io/allocated-by":null}}}`}, more: 1,
			want: "True Allocated: Assigned ADDRESS from pool default"},
		{name: "an address that a node gets later", svc: balancer("node-2", asksFor("10.200.3.201")), more: 1,
			then: func(w *world) { w.node("n2", "10.200.3.201") },
			want: `False AddressConflict: Assigned 10.200.3.201 from pool default; 10.200.3.201 is also an address of node n2, so clients may not reach this Service; set the annotation purelb.io/re-evaluate: "true" to get another address, or remove it there`},
		{name: "an address that another machine gets later", svc: balancer("machine", asksFor("10.200.3.202")), more: 1,
			then: func(w *world) {
				w.patch(w.lease("n1", ""), `{"metadata":{"annotations":{"purelb.io/claimed-addresses":"10.200.3.7=02:00:00:00:00:07,10.200.3.202=02:00:00:00:00:07"}}}`)
			},
			want: `False AddressConflict: Assigned 10.200.3.202 from pool default; 10.200.3.202 is also an address of another machine, 02:00:00:00:00:07, as node n1 reports, so clients may not reach this Service; set the annotation purelb.io/re-evaluate: "true" to get another address, or remove it there`},
		{name: "an address that two Services have", svc: balancer("twin-b"), found: true,
			want: `False AddressConflict: Assigned 10.200.3.60 from pool default; 10.200.3.60 is also held by default/twin-a, which had it first; set the annotation purelb.io/re-evaluate: "true" to get another address, or delete one of the two Services`},
	}
}
