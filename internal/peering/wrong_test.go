package peering_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"purelb.io/purelb/internal/peering"
)

// TestMistakesAreReportedWithTheirField is the table of mistakes. After a "fatal" problem there is
// no state. A problem with "here" is not in the common status. "without" is a neighbor that is left
// out.
func TestMistakesAreReportedWithTheirField(t *testing.T) {
	tests := []struct{ name, config, want string }{
		{
			"no AS number", `{global: {asn: 0}}`,
			`fatal ParseError spec.global.asn: 0 is not the number of an autonomous system: write one from 1 to 4294967295, but not 23456`,
		},
		{
			"an AS number that is too large", `{global: {asn: 4294967296}}`,
			`fatal ParseError spec.global.asn: 4294967296 is not the number of an autonomous system: write one from 1 to 4294967295, but not 23456`,
		},
		{
			"a negative AS number", `{global: {asn: -1}}`,
			`fatal ParseError spec.global.asn: -1 is not the number of an autonomous system: write one from 1 to 4294967295, but not 23456`,
		},
		{
			"the AS number AS_TRANS", `{global: {asn: 23456}}`,
			`fatal ParseError spec.global.asn: 23456 is not the number of an autonomous system: write one from 1 to 4294967295, but not 23456`,
		},
		{
			"a router ID that is a name", `{global: {asn: 64512, routerID: router}}`,
			`fatal RouterIDResolutionFailed spec.global.routerID: "router" is not a router ID: write an IPv4 address, neither loopback, link-local nor multicast, or ${NODE_IP}, ${NODE_EXTERNAL_IP}, ${node.annotations['key']} or ${node.labels['key']}, or nothing`,
		},
		{
			"a router ID of IPv6", `{global: {asn: 64512, routerID: '2001:db8::1'}}`,
			`fatal RouterIDResolutionFailed spec.global.routerID: "2001:db8::1" is not a router ID: write an IPv4 address, neither loopback, link-local nor multicast, or ${NODE_IP}, ${NODE_EXTERNAL_IP}, ${node.annotations['key']} or ${node.labels['key']}, or nothing`,
		},
		{
			"a router ID that is loopback", `{global: {asn: 64512, routerID: 127.0.0.1}}`,
			`fatal RouterIDResolutionFailed spec.global.routerID: "127.0.0.1" is not a router ID: write an IPv4 address, neither loopback, link-local nor multicast, or ${NODE_IP}, ${NODE_EXTERNAL_IP}, ${node.annotations['key']} or ${node.labels['key']}, or nothing`,
		},
		{
			"a router ID that is link-local", `{global: {asn: 64512, routerID: 169.254.1.1}}`,
			`fatal RouterIDResolutionFailed spec.global.routerID: "169.254.1.1" is not a router ID: write an IPv4 address, neither loopback, link-local nor multicast, or ${NODE_IP}, ${NODE_EXTERNAL_IP}, ${node.annotations['key']} or ${node.labels['key']}, or nothing`,
		},
		{
			"a template that does not exist", `{global: {asn: 64512, routerID: '${NODE_NAME}'}}`,
			`fatal RouterIDResolutionFailed spec.global.routerID: "${NODE_NAME}" is not a router ID: write an IPv4 address, neither loopback, link-local nor multicast, or ${NODE_IP}, ${NODE_EXTERNAL_IP}, ${node.annotations['key']} or ${node.labels['key']}, or nothing`,
		},
		{
			"an annotation with a bad name", `{global: {asn: 64512, routerID: "${node.annotations['a b']}"}}`,
			`fatal RouterIDResolutionFailed spec.global.routerID: "${node.annotations['a b']}" is not a router ID: write an IPv4 address, neither loopback, link-local nor multicast, or ${NODE_IP}, ${NODE_EXTERNAL_IP}, ${node.annotations['key']} or ${node.labels['key']}, or nothing`,
		},
		{
			"a missing annotation", `{global: {asn: 64512, routerID: "${node.annotations['example.com/none']}"}}`,
			`fatal here RouterIDResolutionFailed spec.global.routerID: there is no router ID: the node node-a has no annotation example.com/none: set it, such as with kubectl annotate node node-a example.com/none=192.0.2.10`,
		},
		{
			"an annotation that is not a router ID", `{global: {asn: 64512, routerID: "${node.annotations['example.com/broken']}"}}`,
			`fatal here RouterIDResolutionFailed spec.global.routerID: there is no router ID: the annotation example.com/broken of the node node-a is "fe80::1", which is not an IPv4 address that can be a router ID: correct it, such as with kubectl annotate --overwrite node node-a example.com/broken=192.0.2.10`,
		},
		{
			"a pool of router IDs that is too small", `{global: {asn: 64512, routerIDPool: 10.0.0.0/25}}`,
			`ParseError spec.global.routerIDPool: "10.0.0.0/25" is not a pool of router IDs: write an IPv4 network of /24 or larger, such as 10.255.0.0/16`,
		},
		{
			"a pool of router IDs of IPv6", `{global: {asn: 64512, routerIDPool: '2001:db8::/64'}}`,
			`ParseError spec.global.routerIDPool: "2001:db8::/64" is not a pool of router IDs: write an IPv4 network of /24 or larger, such as 10.255.0.0/16`,
		},
		{
			"a port that is too large", `{global: {asn: 64512, listenPort: 65536}}`,
			`ParseError spec.global.listenPort: 65536 is not a TCP port, so 179 is used: write one from 1 to 65535, or -1 to listen nowhere`,
		},
		{
			"a port that is too small", `{global: {asn: 64512, listenPort: -2}}`,
			`ParseError spec.global.listenPort: -2 is not a TCP port, so 179 is used: write one from 1 to 65535, or -1 to listen nowhere`,
		},
		{
			"wrong listen addresses", `{global: {asn: 64512, listenAddresses: [192.0.2.10, '192.0.2.10:179', 192.0.2.10]}}`,
			`ParseError spec.global.listenAddresses[1]: "192.0.2.10:179" is not an address to listen at, and left out: write one of the node's IP addresses, or ${NODE_IP}
			 Duplicate spec.global.listenAddresses[2]: 192.0.2.10 is there twice: remove one`,
		},
		{
			"an unsupported family", `{global: {asn: 64512, families: [ipv4-unicast, l2vpn-evpn]}}`,
			`NotSupported spec.global.families[1]: "l2vpn-evpn" is not supported, and left out: write ipv4-unicast or ipv6-unicast`,
		},
		{
			"only unsupported families", `{global: {asn: 64512, families: [l2vpn-evpn]}}`,
			`NotSupported spec.global.families[0]: "l2vpn-evpn" is not supported, and left out: write ipv4-unicast or ipv6-unicast
			 fatal NotSupported spec.global.families: no supported address family is in the list: write ipv4-unicast, ipv6-unicast or both`,
		},
		{
			"a device with a slash", `{global: {asn: 64512, bindToDevice: vrf/red}}`,
			`fatal ParseError spec.global.bindToDevice: "vrf/red" is not the name of an interface: it has 1 to 15 characters, without spaces, '/', ':' and '%'`,
		},
		{
			"a confederation without an identifier", `{global: {asn: 64512, confederation: {enabled: true, memberAsList: [64512, 0]}}}`,
			`fatal ParseError spec.global.confederation.identifier: 0 is not the number of an autonomous system: write one from 1 to 4294967295, but not 23456
			 fatal ParseError spec.global.confederation.memberAsList[1]: 0 is not the number of an autonomous system: write one from 1 to 4294967295, but not 23456`,
		},
		{
			"a confederation that is not enabled", `{global: {asn: 64512, confederation: {identifier: 65000}}}`,
			`Adjusted spec.global.confederation: is not in effect, because enabled is not true: set it, or remove the rest`,
		},
		{
			"distances", `{global: {asn: 64512, defaultRouteDistance: {externalRouteDistance: 20}}}`,
			`NotSupported spec.global.defaultRouteDistance: is not in effect, because routes have no administrative distance here: use the metric of the rules of netlinkExport`,
		},
		{
			"inactive routes", `{global: {asn: 64512, routeSelectionOptions: {advertiseInactiveRoutes: true}}}`,
			`NotSupported spec.global.routeSelectionOptions.advertiseInactiveRoutes: is not in effect, because what is announced does not depend on routing tables: remove it`,
		},
		{
			"a heartbeat that is too fast", `{global: {asn: 64512, nodeStatus: {heartbeatSeconds: 5}}}`,
			`Adjusted spec.global.nodeStatus.heartbeatSeconds: 5 is too often, so 10 is used: write 10 or more`,
		},
		{
			"a missing global policy", `{global: {asn: 64512, applyPolicy: {exportPolicy: {policies: [none]}}}}`,
			`fatal NotFound spec.global.applyPolicy.exportPolicy.policies[0]: there is no policy "none" in spec.policyDefinitions`,
		},
		{
			"a global policy with a mistake", `{global: {asn: 64512, applyPolicy: {importPolicy: {policies: [bad]}}}, policyDefinitions: [{name: bad, statements: [{actions: {routeAction: maybe}}]}]}`,
			`ParseError spec.policyDefinitions[0].statements[0].actions.routeAction: "maybe" is neither accept nor reject; the policy is not in use
			 fatal NotFound spec.global.applyPolicy.importPolicy.policies[0]: the policy "bad" has a mistake (see spec.policyDefinitions[0])`,
		},
		{
			"an unknown global default action", `{global: {asn: 64512, applyPolicy: {exportPolicy: {defaultAction: drop}}}}`,
			`fatal ParseError spec.global.applyPolicy.exportPolicy.defaultAction: "drop" is neither accept nor reject`,
		},
		{
			"a neighbor without address and interface", `{neighbors: [{config: {peerAsn: 64513}}]}`,
			`ParseError spec.neighbors[0].config: the neighbor has no address: write neighborAddress, neighborInterface or neighborGateway
			 without spec.neighbors[0]`,
		},
		{
			"a neighbor with address and interface", `{neighbors: [{config: {neighborAddress: 192.0.2.1, neighborInterface: eth0, peerAsn: 64513}}]}`,
			`Conflict spec.neighbors[0].config: neighborAddress, neighborInterface and neighborGateway each name a neighbor: write only one of them
			 without 192.0.2.1`,
		},
		{
			"a host name as a neighbor", `{neighbors: [{config: {neighborAddress: router.example.com, peerAsn: 64513}}]}`,
			`ParseError spec.neighbors[0].config.neighborAddress: "router.example.com" is not the IP address of a neighbor: write one such as 192.0.2.1 or 2001:db8::1
			 without router.example.com`,
		},
		{
			"a default gateway and an address", `{neighbors: [{config: {neighborAddress: 192.0.2.1, neighborGateway: ipv4, peerAsn: 64513}}]}`,
			`Conflict spec.neighbors[0].config: neighborAddress, neighborInterface and neighborGateway each name a neighbor: write only one of them
			 without 192.0.2.1`,
		},
		{
			"a default gateway of an unknown family", `{neighbors: [{config: {neighborGateway: both, peerAsn: 64513}}]}`,
			`ParseError spec.neighbors[0].config.neighborGateway: "both" is not a family: write ipv4 or ipv6
			 without gateway both`,
		},
		{
			"a neighbor with a mask", `{neighbors: [{config: {neighborAddress: 192.0.2.1/24, peerAsn: 64513}}]}`,
			`ParseError spec.neighbors[0].config.neighborAddress: "192.0.2.1/24" is not the IP address of a neighbor: write one such as 192.0.2.1 or 2001:db8::1
			 without 192.0.2.1/24`,
		},
		{
			"an unspecified address as a neighbor", `{neighbors: [{config: {neighborAddress: 0.0.0.0, peerAsn: 64513}}]}`,
			`ParseError spec.neighbors[0].config.neighborAddress: "0.0.0.0" is not the IP address of a neighbor: write one such as 192.0.2.1 or 2001:db8::1
			 without 0.0.0.0`,
		},
		{
			"a multicast address as a neighbor", `{neighbors: [{config: {neighborAddress: 'ff02::1', peerAsn: 64513}}]}`,
			`ParseError spec.neighbors[0].config.neighborAddress: "ff02::1" is not the IP address of a neighbor: write one such as 192.0.2.1 or 2001:db8::1
			 without ff02::1`,
		},
		{
			"an IPv4 address in IPv6 form as a neighbor", `{neighbors: [{config: {neighborAddress: '::ffff:192.0.2.1', peerAsn: 64513}}]}`,
			`ParseError spec.neighbors[0].config.neighborAddress: "::ffff:192.0.2.1" is not the IP address of a neighbor: write one such as 192.0.2.1 or 2001:db8::1
			 without ::ffff:192.0.2.1`,
		},
		{
			"a link-local neighbor without interface", `{neighbors: [{config: {neighborAddress: 'fe80::1', peerAsn: 64513}}]}`,
			`ParseError spec.neighbors[0].config.neighborAddress: fe80::1 is valid on every interface: append the one that is meant, such as fe80::1%eth1
			 without fe80::1`,
		},
		{
			"a neighbor with a wrong interface", `{neighbors: [{config: {neighborAddress: 'fe80::1%e/0', peerAsn: 64513}}]}`,
			`ParseError spec.neighbors[0].config.neighborAddress: "e/0" is not the name of an interface: it has 1 to 15 characters, without spaces, '/', ':' and '%'
			 without fe80::1%e/0`,
		},
		{
			"a global address with an interface", `{neighbors: [{config: {neighborAddress: '2001:db8::1%eth0', peerAsn: 64513}}]}`,
			`ParseError spec.neighbors[0].config.neighborAddress: "2001:db8::1%eth0" is not the IP address of a neighbor: write one such as 192.0.2.1 or 2001:db8::1
			 without 2001:db8::1%eth0`,
		},
		{
			"an interface with a long name", `{neighbors: [{config: {neighborInterface: eth0-of-the-node1, peerAsn: 64513}}]}`,
			`ParseError spec.neighbors[0].config.neighborInterface: "eth0-of-the-node1" is not the name of an interface: it has 1 to 15 characters, without spaces, '/', ':' and '%'
			 without %eth0-of-the-node1`,
		},
		{
			"a neighbor twice", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}}, {config: {neighborAddress: 192.0.2.1, peerAsn: 64514}}]}`,
			`Duplicate spec.neighbors[1].config: an earlier neighbor is 192.0.2.1 too (see spec.neighbors[0]), so this one is left out: remove one of them
			 without 192.0.2.1`,
		},
		{
			"an interface twice", `{neighbors: [{config: {neighborInterface: eth1, peerAsn: 64513}}, {config: {neighborInterface: eth1, peerAsn: 64513}}]}`,
			`Duplicate spec.neighbors[1].config: an earlier neighbor is %eth1 too (see spec.neighbors[0]), so this one is left out: remove one of them
			 without %eth1`,
		},
		{
			"a neighbor without an AS number", `{neighbors: [{config: {neighborAddress: 192.0.2.1}}]}`,
			`ParseError spec.neighbors[0].config.peerAsn: the number of the neighbor's AS is not known: write it here, or in its peer group
			 without 192.0.2.1`,
		},
		{
			"a neighbor with a wrong AS number", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: -5}}]}`,
			`ParseError spec.neighbors[0].config.peerAsn: -5 is not the number of an autonomous system: write one from 1 to 4294967295, but not 23456
			 without 192.0.2.1`,
		},
		{
			"a neighbor with an unknown word as its AS", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: any}}]}`,
			`ParseError spec.neighbors[0].config.peerAsn: a word is not the number of an autonomous system: write one from 1 to 4294967295, but not 23456
			 without 192.0.2.1`,
		},
		{
			"an external neighbor in a confederation", `{global: {asn: 64512, confederation: {enabled: true, identifier: 65000, memberAsList: [64512]}}, neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: external}}]}`,
			`NotSupported spec.neighbors[0].config.peerAsn: external does not say whether the neighbor is in the confederation: write the number of its autonomous system
			 without 192.0.2.1`,
		},
		{
			"an external neighbor as a client of a route reflector", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: external}, routeReflector: {routeReflectorClient: true}}]}`,
			`Conflict spec.neighbors[0].routeReflector.routeReflectorClient: is not in effect, because the neighbor is not in the node's own AS: only neighbors in it can be clients`,
		},
		{
			"an external neighbor with multihop", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: external}, ebgpMultihop: {enabled: true, multihopTtl: 3}}]}`,
			`Adjusted spec.neighbors[0].ebgpMultihop.multihopTtl: is not in effect, because peerAsn is external: packets have the TTL of the node's kernel, which is 64 by default. Write the number of the neighbor's AS, or remove this`,
		},
		{
			"a neighbor with a wrong local AS number", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513, localAsn: 4294967296}}]}`,
			`ParseError spec.neighbors[0].config.localAsn: 4294967296 is not the number of an autonomous system: write one from 1 to 4294967295, but not 23456
			 without 192.0.2.1`,
		},
		{
			"a group that does not exist", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513, peerGroup: tor}}]}`,
			`PeerGroupMissing spec.neighbors[0].config.peerGroup: there is no group "tor" in spec.peerGroups
			 without 192.0.2.1`,
		},
		{
			"a group without a name", `{peerGroups: [{config: {peerGroupName: ''}}]}`,
			`ParseError spec.peerGroups[0].config.peerGroupName: the group has no name, and is not in use: write one`,
		},
		{
			"a group twice", `{peerGroups: [{config: {peerGroupName: tor}}, {config: {peerGroupName: tor, peerAsn: 1}}]}`,
			`Duplicate spec.peerGroups[1].config.peerGroupName: an earlier group has the name "tor", so this one is not in use: write another`,
		},
		{
			"a group with a bad selector", `{peerGroups: [{config: {peerGroupName: tor}, nodeSelector: {matchExpressions: [{key: rack, operator: Near}]}}], neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513, peerGroup: tor}}]}`,
			`ParseError spec.peerGroups[0].nodeSelector: "Near" is not a valid label selector operator: correct it, or remove it to select all nodes
			 PeerGroupMissing spec.neighbors[0].config.peerGroup: the group "tor" has a mistake (see spec.peerGroups[0])
			 without 192.0.2.1`,
		},
		{
			"a group with a wrong AS number and its neighbor", `{peerGroups: [{config: {peerGroupName: tor, peerAsn: 23456}}], neighbors: [{config: {neighborAddress: 192.0.2.1, peerGroup: tor}}]}`,
			`ParseError spec.peerGroups[0].config.peerAsn: 23456 is not the number of an autonomous system: write one from 1 to 4294967295, but not 23456
			 without 192.0.2.1`,
		},
		{
			"a neighbor with a bad selector", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}, nodeSelector: {matchLabels: {'a b': c}}}]}`,
			`ParseError spec.neighbors[0].nodeSelector: key: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]'): correct it, or remove it to select all nodes
			 here NoMatchingNeighbors spec.neighbors: none of the neighbors is for this node, so it announces nothing`,
		},
		{
			"no neighbor for this node", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}, nodeSelector: {matchLabels: {rack: '2'}}}]}`,
			`here NoMatchingNeighbors spec.neighbors: none of the neighbors is for this node, so it announces nothing`,
		},
		{
			"a mistake in a neighbor of other nodes", `{neighbors: [{config: {neighborAddress: here, peerAsn: 64513}, nodeSelector: {matchLabels: {rack: '2'}}}, {config: {neighborAddress: 192.0.2.1, peerAsn: 64513}}]}`,
			`ParseError spec.neighbors[0].config.neighborAddress: "here" is not the IP address of a neighbor: write one such as 192.0.2.1 or 2001:db8::1`,
		},
		{
			"a neighbor in a VRF", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513, vrf: red}}]}`,
			`NotSupported spec.neighbors[0].config.vrf: VRFs are not supported, so the neighbor is left out: remove vrf, and it gets the routes that all neighbors get
			 without 192.0.2.1`,
		},
		{
			"a Secret that does not exist", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513, authPasswordSecretRef: {name: none, key: password}}}]}`,
			`SecretUnusable spec.neighbors[0].config.authPasswordSecretRef: secret purelb-system/none has no key "password"
			 without 192.0.2.1`,
		},
		{
			"an empty password", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513, authPasswordSecretRef: {name: bgp, key: empty}}}]}`,
			`SecretUnusable spec.neighbors[0].config.authPasswordSecretRef: the key "empty" of the secret "bgp" is empty: put the password there
			 without 192.0.2.1`,
		},
		{
			"a password of 81 bytes", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513, authPasswordSecretRef: {name: bgp, key: '81'}}}]}`,
			`SecretUnusable spec.neighbors[0].config.authPasswordSecretRef: the password has 81 bytes, and the kernel takes 80: make it shorter
			 without 192.0.2.1`,
		},
		{
			"a password with a zero byte", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513, authPasswordSecretRef: {name: bgp, key: zero}}}]}`,
			`SecretUnusable spec.neighbors[0].config.authPasswordSecretRef: the password has a zero byte, which no router accepts: remove it
			 without 192.0.2.1`,
		},
		{
			"a password of 81 bytes in the spec", `{peerGroups: [{config: {peerGroupName: tor, authPassword: ppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppp}}], neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513, peerGroup: tor}}]}`,
			`SecretUnusable spec.peerGroups[0].config.authPassword: the password has 81 bytes, and the kernel takes 80: make it shorter
			 without 192.0.2.1`,
		},
		{
			"a neighbor with an unsupported family", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}, afiSafis: [{family: ipv4-unicast}, {family: l2vpn-evpn, enabled: true}, {family: ipv4-unicast}]}]}`,
			`NotSupported spec.neighbors[0].afiSafis[1].family: "l2vpn-evpn" is not supported, and left out: write ipv4-unicast or ipv6-unicast
			 Duplicate spec.neighbors[0].afiSafis[2].family: ipv4-unicast is there twice: remove one`,
		},
		{
			"a neighbor with a family that global does not have", `{global: {asn: 64512, families: [ipv4-unicast]}, neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}, afiSafis: [{family: ipv6-unicast}, {family: ipv4-unicast}]}]}`,
			`Conflict spec.neighbors[0].afiSafis[0].family: ipv6-unicast is not among spec.global.families, and left out: add it there`,
		},
		{
			"a neighbor without a family", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}, afiSafis: [{family: ipv4-unicast, enabled: false}]}]}`,
			`NotSupported spec.neighbors[0].afiSafis: no supported address family is enabled: write ipv4-unicast or ipv6-unicast, or remove afiSafis
			 without 192.0.2.1`,
		},
		{
			"a negative prefix limit", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}, afiSafis: [{family: ipv4-unicast, prefixLimit: {maxPrefixes: -1}}]}]}`,
			`ParseError spec.neighbors[0].afiSafis[0].prefixLimit.maxPrefixes: -1 is not a number of prefixes: write 1 or more, or remove the limit
			 without 192.0.2.1`,
		},
		{
			"a warning threshold above 100 percent", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}, afiSafis: [{family: ipv4-unicast, prefixLimit: {maxPrefixes: 10, shutdownThresholdPct: 101}}]}]}`,
			`ParseError spec.neighbors[0].afiSafis[0].prefixLimit.shutdownThresholdPct: 101 is not from 1 to 100 percent, so there is no warning`,
		},
		{
			"too many paths", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}, afiSafis: [{family: ipv4-unicast, addPaths: {sendMax: 256}}]}]}`,
			`ParseError spec.neighbors[0].afiSafis[0].addPaths.sendMax: 256 is not from 1 to 255, so one path is sent`,
		},
		{
			"a hold time of two seconds", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}, timers: {config: {holdTime: 2}}}]}`,
			`ParseError spec.neighbors[0].timers.config.holdTime: 2 is not from 3 to 65535 seconds, so 90 is used`,
		},
		{
			"a keepalive interval that is too long", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}, timers: {config: {holdTime: 9, keepaliveInterval: 9}}}]}`,
			`Adjusted spec.neighbors[0].timers.config.keepaliveInterval: 9 is not less than the holdTime of 9, so 3 is used: write a third of it`,
		},
		{
			"a connect retry time that is too long", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}, timers: {config: {connectRetry: 65536}}}]}`,
			`ParseError spec.neighbors[0].timers.config.connectRetry: 65536 is not from 1 to 65535 seconds, so 10 is used`,
		},
		{
			"an advertisement interval", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}, timers: {config: {minimumAdvertisementInterval: 5}}}]}`,
			`NotSupported spec.neighbors[0].timers.config.minimumAdvertisementInterval: is not in effect, because changes are announced at once: remove it`,
		},
		{
			"a local address that is not an address", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}, transport: {localAddress: eth0}}]}`,
			`ParseError spec.neighbors[0].transport.localAddress: "eth0" is not an address that a session can be from
			 without 192.0.2.1`,
		},
		{
			"a local address of the other family", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}, transport: {localAddress: '2001:db8::10'}}]}`,
			`Conflict spec.neighbors[0].transport.localAddress: a session with 192.0.2.1 cannot be from 2001:db8::10: write an address of the same family
			 without 192.0.2.1`,
		},
		{
			"an IPv4 local address of an unnumbered neighbor", `{neighbors: [{config: {neighborInterface: eth1, peerAsn: 64513}, transport: {localAddress: 192.0.2.10}, bfd: {}}]}`,
			`Conflict spec.neighbors[0].transport.localAddress: a session with %eth1 cannot be from 192.0.2.10: write an address of the same family
			 without %eth1`,
		},
		{
			"a local address of the other family for dynamic neighbors", `{peerGroups: [{config: {peerGroupName: tor, peerAsn: 64513}, transport: {localAddress: 192.0.2.10}}], dynamicNeighbors: [{prefix: '2001:db8::/64', peerGroup: tor}]}`,
			`Conflict spec.peerGroups[0].transport.localAddress: a session with 2001:db8::/64 cannot be from 192.0.2.10: write an address of the same family`,
		},
		{
			"a wrong interface to bind to", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}, transport: {bindInterface: 'eth 0'}}]}`,
			`ParseError spec.neighbors[0].transport.bindInterface: "eth 0" is not the name of an interface: it has 1 to 15 characters, without spaces, '/', ':' and '%'
			 without 192.0.2.1`,
		},
		{
			"a port of a neighbor that is too large", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}, transport: {remotePort: 70000}}]}`,
			`ParseError spec.neighbors[0].transport.remotePort: 70000 is not a TCP port: write one from 1 to 65535
			 without 192.0.2.1`,
		},
		{
			"graceful restart that is not enabled", `{global: {asn: 64512, gracefulRestart: {restartTime: 60}}, neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}}]}`,
			`Adjusted spec.global.gracefulRestart: is not in effect, because enabled is not true: set it, or remove the rest`,
		},
		{
			"a restart time that is too long", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}, gracefulRestart: {enabled: true, restartTime: 4096, deferralTime: -1, longLivedRestartTime: 16777216}}]}`,
			`ParseError spec.neighbors[0].gracefulRestart.restartTime: 4096 is not from 1 to 4095 seconds, so 120 is used
			 ParseError spec.neighbors[0].gracefulRestart.deferralTime: -1 is not from 1 to 3600 seconds, so 5 is used
			 ParseError spec.neighbors[0].gracefulRestart.longLivedRestartTime: 16777216 is not from 0 to 16777215 seconds, so 0 is used`,
		},
		{
			"a route reflector client in another AS", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}, routeReflector: {routeReflectorClient: true}}]}`,
			`Conflict spec.neighbors[0].routeReflector.routeReflectorClient: is not in effect, because the neighbor is not in the node's own AS: only neighbors in it can be clients`,
		},
		{
			"a cluster ID without a client", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64512}, routeReflector: {routeReflectorClusterId: 10.0.0.1}}]}`,
			`Adjusted spec.neighbors[0].routeReflector.routeReflectorClusterId: is not in effect, because routeReflectorClient is not true: set it, or remove this`,
		},
		{
			"a cluster ID that is not an address", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64512}, routeReflector: {routeReflectorClient: true, routeReflectorClusterId: '1'}}]}`,
			`ParseError spec.neighbors[0].routeReflector.routeReflectorClusterId: "1" is not an IPv4 address, so the router ID is used`,
		},
		{
			"multihop with TTL security", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}, ebgpMultihop: {enabled: true}, ttlSecurity: {}}]}`,
			`Conflict spec.neighbors[0].ebgpMultihop: ebgpMultihop and ttlSecurity exclude each other: disable one of them
			 without 192.0.2.1`,
		},
		{
			"an allowOwnAsn that is too large", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}, allowOwnAsn: 11}]}`,
			`ParseError spec.neighbors[0].allowOwnAsn: 11 is not from 0 to 10, so 0 is used`,
		},
		{
			"a multihop TTL that is too large", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}, ebgpMultihop: {enabled: true, multihopTtl: 256}}]}`,
			`ParseError spec.neighbors[0].ebgpMultihop.multihopTtl: 256 is not a TTL: write one from 1 to 255
			 without 192.0.2.1`,
		},
		{
			"a multihop TTL without multihop", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}, ebgpMultihop: {multihopTtl: 2}}]}`,
			`Adjusted spec.neighbors[0].ebgpMultihop: is not in effect, because enabled is not true: set it, or remove the rest`,
		},
		{
			"multihop in the node's own AS", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64512}, ebgpMultihop: {enabled: true, multihopTtl: 2}}]}`,
			`Adjusted spec.neighbors[0].ebgpMultihop: is not in effect, because the neighbor is in the node's own AS, where it may be anywhere: remove it`,
		},
		{
			"a minimum TTL that is too large", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}, ttlSecurity: {ttlMin: 256}}]}`,
			`ParseError spec.neighbors[0].ttlSecurity.ttlMin: 256 is not a TTL: write one from 1 to 255
			 without 192.0.2.1`,
		},
		{
			"a TTL for single-hop BFD, and one that is too large", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}, bfd: {minimumTtl: 7}}, {config: {neighborAddress: 192.0.2.2, peerAsn: 64513}, bfd: {multihop: true, minimumTtl: 256}}]}`,
			`Adjusted spec.neighbors[0].bfd.minimumTtl: is not in effect, because BFD is not multihop: set multihop, or remove it
			 ParseError spec.neighbors[1].bfd.minimumTtl: 256 is not from 1 to 255 hops, so 254 is used`,
		},
		{
			"BFD that is too fast", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}, bfd: {minReceiveIntervalMilliseconds: 10, minTransmitIntervalMilliseconds: 49, detectionMultiplier: 1}}]}`,
			`ParseError spec.neighbors[0].bfd.minTransmitIntervalMilliseconds: 49 is not from 50 to 60000 milliseconds, so 300 is used
			 ParseError spec.neighbors[0].bfd.minReceiveIntervalMilliseconds: 10 is not from 50 to 60000 milliseconds, so 300 is used
			 ParseError spec.neighbors[0].bfd.detectionMultiplier: 1 is not from 2 to 255 packets, so 3 is used`,
		},
		{
			"BFD that is slower than the hold time", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}, timers: {config: {holdTime: 9}}, bfd: {minTransmitIntervalMilliseconds: 3000}}]}`,
			`Conflict spec.neighbors[0].bfd: BFD detects a dead node after 9s or later, and the holdTime ends the session after 9s: lower minTransmitIntervalMilliseconds or detectionMultiplier`,
		},
		{
			"BFD that is a little faster than the hold time", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}, timers: {config: {holdTime: 9}}, bfd: {minTransmitIntervalMilliseconds: 2999}}]}`, "",
		},
		{
			"a missing policy", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}, applyPolicy: {exportPolicy: {policies: [none]}}}]}`,
			`NotFound spec.neighbors[0].applyPolicy.exportPolicy.policies[0]: there is no policy "none" in spec.policyDefinitions
			 without 192.0.2.1`,
		},
		{
			"a policy twice", `{policyDefinitions: [{name: one}], neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}, applyPolicy: {importPolicy: {policies: [one, one]}}}]}`,
			`Duplicate spec.neighbors[0].applyPolicy.importPolicy.policies[1]: "one" is there twice: remove one`,
		},
		{
			"a policy that refers to a missing set", `{policyDefinitions: [{name: out, statements: [{conditions: {prefixSet: {name: ours}}}]}], neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}, applyPolicy: {exportPolicy: {policies: [out]}}}]}`,
			`NotFound spec.policyDefinitions[0].statements[0].conditions.prefixSet.name: there is no prefix set "ours" in spec.definedSets; the policy is not in use
			 NotFound spec.neighbors[0].applyPolicy.exportPolicy.policies[0]: the policy "out" has a mistake (see spec.policyDefinitions[0])
			 without 192.0.2.1`,
		},
		{
			"a policy that refers to a set of another kind", `{definedSets: [{type: neighbor, name: ours, list: [192.0.2.1]}], policyDefinitions: [{name: out, statements: [{conditions: {prefixSet: {name: ours}}}]}]}`,
			`NotFound spec.policyDefinitions[0].statements[0].conditions.prefixSet.name: there is no prefix set "ours" in spec.definedSets; the policy is not in use`,
		},
		{
			"a policy that refers to a set with a mistake", `{definedSets: [{type: community, name: ours, list: ['(']}], policyDefinitions: [{name: out, statements: [{conditions: {communitySet: {name: ours}}}]}]}`,
			`ParseError spec.definedSets[0].list[0]: "(" is not a regular expression; the set is not in use
			 NotFound spec.policyDefinitions[0].statements[0].conditions.communitySet.name: the community set "ours" has a mistake (see spec.definedSets[0]); the policy is not in use`,
		},
		{
			"a policy without a name", `{policyDefinitions: [{statements: []}]}`,
			`ParseError spec.policyDefinitions[0].name: "" cannot be a name: write one that is not empty and does not begin with purelb:`,
		},
		{
			"a policy with a reserved name", `{policyDefinitions: [{name: 'purelb:transit'}]}`,
			`ParseError spec.policyDefinitions[0].name: "purelb:transit" cannot be a name: write one that is not empty and does not begin with purelb:`,
		},
		{
			"two policies of one name", `{policyDefinitions: [{name: out}, {name: out}]}`,
			`Duplicate spec.policyDefinitions[1].name: an earlier policy has the name "out", so this one is not in use: write another`,
		},
		{
			"two statements of one name", `{policyDefinitions: [{name: out, statements: [{name: a}, {name: a}]}]}`,
			`Duplicate spec.policyDefinitions[0].statements[1].name: an earlier statement has the name "a": write another; the policy is not in use`,
		},
		{
			"an unknown match", `{definedSets: [{type: as-path, name: ours, list: [_64513_]}], policyDefinitions: [{name: out, statements: [{conditions: {asPathSet: {name: ours, match: some}}}]}]}`,
			`ParseError spec.policyDefinitions[0].statements[0].conditions.asPathSet.match: "some" is not a way to match: write any, all or invert; the policy is not in use`,
		},
		{
			"a match of all neighbors of a set", `{definedSets: [{type: neighbor, name: ours, list: [192.0.2.1]}], policyDefinitions: [{name: out, statements: [{conditions: {neighborSet: {name: ours, match: all}}}]}]}`,
			`ParseError spec.policyDefinitions[0].statements[0].conditions.neighborSet.match: a route cannot match all of a neighbor set: write any or invert; the policy is not in use`,
		},
		{
			"RPKI", `{policyDefinitions: [{name: out, statements: [{conditions: {rpkiResult: invalid}, actions: {routeAction: reject}}]}]}`,
			`NotSupported spec.policyDefinitions[0].statements[0].conditions.rpkiResult: there is no RPKI validator to ask, so this never holds: remove it; the policy is not in use`,
		},
		{
			"an unknown route action", `{policyDefinitions: [{name: out, statements: [{actions: {routeAction: drop}}]}]}`,
			`ParseError spec.policyDefinitions[0].statements[0].actions.routeAction: "drop" is neither accept nor reject; the policy is not in use`,
		},
		{
			"wrong communities", `{policyDefinitions: [{name: out, statements: [{actions: {routeAction: accept, community: {type: add, communities: ['64512:100', '64512:65536', no-exports]}}}]}]}`,
			`ParseError spec.policyDefinitions[0].statements[0].actions.community.communities[1]: "64512:65536" is not a community: write two numbers from 0 to 65535, such as 64512:100, or a well-known name such as no-export; the policy is not in use
			 ParseError spec.policyDefinitions[0].statements[0].actions.community.communities[2]: "no-exports" is neither a community nor a name in spec.communityAliases of a BGPConfiguration of this node: correct it, or define it there; the policy is not in use`,
		},
		{
			"wrong large communities", `{policyDefinitions: [{name: out, statements: [{actions: {routeAction: accept, largeCommunity: {communities: ['1:2', '1:2:4294967296']}}}]}]}`,
			`ParseError spec.policyDefinitions[0].statements[0].actions.largeCommunity.communities[0]: "1:2" is not a large community: write three numbers from 0 to 4294967295, such as 64512:100:1; the policy is not in use
			 ParseError spec.policyDefinitions[0].statements[0].actions.largeCommunity.communities[1]: "1:2:4294967296" is not a large community: write three numbers from 0 to 4294967295, such as 64512:100:1; the policy is not in use`,
		},
		{
			"no communities", `{policyDefinitions: [{name: out, statements: [{actions: {routeAction: accept, community: {type: remove}}}]}]}`,
			`ParseError spec.policyDefinitions[0].statements[0].actions.community.communities: there is nothing to remove: write communities; the policy is not in use`,
		},
		{
			"an unknown change of communities", `{policyDefinitions: [{name: out, statements: [{actions: {routeAction: accept, community: {type: set, communities: ['1:2']}}}]}]}`,
			`ParseError spec.policyDefinitions[0].statements[0].actions.community.type: "set" is none of add, remove and replace; the policy is not in use`,
		},
		{
			"a wrong MED", `{policyDefinitions: [{name: out, statements: [{actions: {med: {type: replace, value: -1}}}, {actions: {med: {type: igp, value: 1}}}]}]}`,
			`ParseError spec.policyDefinitions[0].statements[0].actions.med.value: -1 is not a MED: write a number from 0 to 4294967295; the policy is not in use
			 ParseError spec.policyDefinitions[0].statements[1].actions.med.type: "igp" is neither mod nor replace; the policy is not in use`,
		},
		{
			"a local preference of 0, which older manifests have", `{policyDefinitions: [{name: out, statements: [{actions: {localPref: 0}}]}], neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}, applyPolicy: {exportPolicy: {policies: [out]}}}]}`,
			`Adjusted spec.policyDefinitions[0].statements[0].actions.localPref: 0 leaves the local preference of the route as it is: remove it, or write a number from 1 to 4294967295`,
		},
		{
			"a change of the MED by nothing", `{policyDefinitions: [{name: out, statements: [{actions: {med: {type: mod}}}]}]}`,
			`Adjusted spec.policyDefinitions[0].statements[0].actions.med.value: 0 leaves the MED of the route as it is: remove it, or write another number`,
		},
		{
			"a local preference that is too large", `{policyDefinitions: [{name: out, statements: [{actions: {localPref: 4294967296}}]}]}`,
			`ParseError spec.policyDefinitions[0].statements[0].actions.localPref: 4294967296 cannot be set as a local preference: write a number from 1 to 4294967295; the policy is not in use`,
		},
		{
			"wrong AS path prepends", `{policyDefinitions: [{name: out, statements: [{actions: {asPrepend: {asn: 23456, repeat: 1}}}, {actions: {asPrepend: {repeat: 256}}}]}]}`,
			`ParseError spec.policyDefinitions[0].statements[0].actions.asPrepend.asn: 23456 is not the number of an autonomous system: write one from 1 to 4294967295, but not 23456; the policy is not in use
			 ParseError spec.policyDefinitions[0].statements[1].actions.asPrepend.repeat: 256 is not from 1 to 255; the policy is not in use`,
		},
		{
			"a set without a name", `{definedSets: [{type: neighbor, name: '', list: [192.0.2.1]}]}`,
			`ParseError spec.definedSets[0].name: "" cannot be a name: write one that is not empty and does not begin with purelb:`,
		},
		{
			"an unknown kind of set", `{definedSets: [{type: ext-community, name: ours, list: ['rt:1:2']}]}`,
			`NotSupported spec.definedSets[0].type: "ext-community" is not a kind of set: write prefix, neighbor, as-path, community or large-community`,
		},
		{
			"two sets of one name", `{definedSets: [{type: neighbor, name: ours, list: [192.0.2.1]}, {type: neighbor, name: ours, list: [192.0.2.2]}]}`,
			`Duplicate spec.definedSets[1].name: an earlier neighbor set has the name "ours", so this one is not in use: write another`,
		},
		{
			"an empty set", `{definedSets: [{type: community, name: ours}]}`,
			`ParseError spec.definedSets[0].list: the set is empty, and not in use: write list`,
		},
		{
			"an empty set of prefixes", `{definedSets: [{type: prefix, name: ours}]}`,
			`ParseError spec.definedSets[0].prefixes: the set is empty, and not in use: write prefixes`,
		},
		{
			"a set of prefixes with a list", `{definedSets: [{type: prefix, name: ours, list: [192.0.2.0/24], prefixes: [{ipPrefix: 192.0.2.0/24}]}]}`,
			`ParseError spec.definedSets[0].list: sets of type prefix have no list: write prefixes; the set is not in use`,
		},
		{
			"a set of neighbors with prefixes", `{definedSets: [{type: neighbor, name: ours, list: [192.0.2.1], prefixes: [{ipPrefix: 192.0.2.0/24}]}]}`,
			`ParseError spec.definedSets[0].prefixes: only sets of type prefix have prefixes: write list, or change the type; the set is not in use`,
		},
		{
			"a set of prefixes with an address", `{definedSets: [{type: prefix, name: ours, prefixes: [{ipPrefix: 192.0.2.0}]}]}`,
			`ParseError spec.definedSets[0].prefixes[0].ipPrefix: "192.0.2.0" is not a network: write one such as 192.0.2.0/24; the set is not in use`,
		},
		{
			"a set of prefixes of two families", `{definedSets: [{type: prefix, name: ours, prefixes: [{ipPrefix: 192.0.2.0/24}, {ipPrefix: '2001:db8::/32'}]}]}`,
			`Conflict spec.definedSets[0].prefixes[1].ipPrefix: 2001:db8::/32 is IPv6 and the others of the set are IPv4, so it is not in use: make two sets of them`,
		},
		{
			"wrong mask lengths", `{definedSets: [{type: prefix, name: ours, prefixes: [{ipPrefix: 192.0.2.0/24, maskLengthMin: 30, maskLengthMax: 28}, {ipPrefix: 192.0.2.0/24, maskLengthMin: 16}]}]}`,
			`ParseError spec.definedSets[0].prefixes[0].maskLengthMax: 28 is not the length of a mask in 192.0.2.0/24: write a number from 30 to 32; the set is not in use
			 ParseError spec.definedSets[0].prefixes[1].maskLengthMin: 16 is not the length of a mask in 192.0.2.0/24: write a number from 24 to 32; the set is not in use`,
		},
		{
			"a set of neighbors with a host name", `{definedSets: [{type: neighbor, name: ours, list: [router]}]}`,
			`ParseError spec.definedSets[0].list[0]: "router" is neither an IP address nor a network; the set is not in use`,
		},
		{
			"a wrong regular expression", `{definedSets: [{type: as-path, name: ours, list: ['(64513', '']}]}`,
			`ParseError spec.definedSets[0].list[0]: "(64513" is not a regular expression; the set is not in use
			 ParseError spec.definedSets[0].list[1]: "" would match everything; the set is not in use`,
		},
		{
			"dynamic neighbors with a wrong network", `{peerGroups: [{config: {peerGroupName: tor, peerAsn: 64513}}], dynamicNeighbors: [{prefix: 192.0.2.0, peerGroup: tor}]}`,
			`ParseError spec.dynamicNeighbors[0].prefix: "192.0.2.0" is not a network that neighbors can come from: write one such as 192.0.2.0/24`,
		},
		{
			"dynamic neighbors with the same network twice", `{peerGroups: [{config: {peerGroupName: tor, peerAsn: 64513}}], dynamicNeighbors: [{prefix: 192.0.2.0/24, peerGroup: tor}, {prefix: 192.0.2.1/24, peerGroup: tor}]}`,
			`Duplicate spec.dynamicNeighbors[1].prefix: an earlier entry is 192.0.2.0/24 too, so this one is left out: remove one of them`,
		},
		{
			"dynamic neighbors of a missing group", `{dynamicNeighbors: [{prefix: 192.0.2.0/24, peerGroup: tor}]}`,
			`PeerGroupMissing spec.dynamicNeighbors[0].peerGroup: there is no group "tor" in spec.peerGroups`,
		},
		{
			"dynamic neighbors of a group without an AS number", `{peerGroups: [{config: {peerGroupName: tor}}], dynamicNeighbors: [{prefix: 192.0.2.0/24, peerGroup: tor}]}`,
			`ParseError spec.dynamicNeighbors[0].peerGroup: the group "tor" does not say the number of its neighbors' AS, so none is accepted: write spec.peerGroups[0].config.peerAsn`,
		},
		{
			"dynamic neighbors of a group with a wrong AS number", `{peerGroups: [{config: {peerGroupName: tor, peerAsn: -1}}], dynamicNeighbors: [{prefix: 192.0.2.0/24, peerGroup: tor}]}`,
			`ParseError spec.peerGroups[0].config.peerAsn: -1 is not the number of an autonomous system: write one from 1 to 4294967295, but not 23456
			 PeerGroupMissing spec.dynamicNeighbors[0].peerGroup: the group "tor" has a mistake (see spec.peerGroups[0]), so none is accepted`,
		},
		{
			"a neighbor on an interface without IPv6", `{neighbors: [{config: {neighborAddress: 198.51.100.1, peerAsn: 64513}}]}`,
			`here NoNextHop spec.neighbors[0]: IPv6 routes are not announced, because this node has no global IPv6 address on eth1, by which it reaches 198.51.100.1: give it one, or leave the family out of afiSafis`,
		},
		{
			"a neighbor without a route", `{neighbors: [{config: {neighborAddress: 203.0.113.1, peerAsn: 64513}}]}`,
			`here NoNextHop spec.neighbors[0]: IPv6 routes are not announced, because there is no route to 203.0.113.1`,
		},
		{
			"a session that is bound to an interface without IPv6", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}, transport: {bindInterface: eth3}}]}`,
			`here NoNextHop spec.neighbors[0]: IPv6 routes are not announced, because this node has no global IPv6 address on eth3, by which it reaches 192.0.2.1: give it one, or leave the family out of afiSafis`,
		},
		{
			"a session that is bound to a missing interface", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}, transport: {bindInterface: eth4}}]}`,
			`here NoNextHop spec.neighbors[0]: IPv6 routes are not announced, because the interface eth4 is not there, or down, or without IPv6`,
		},
		{
			"dynamic neighbors without a route, on an interface without IPv6, and on two interfaces", `{peerGroups: [{config: {peerGroupName: tor, peerAsn: 64600}}], dynamicNeighbors: [{prefix: 203.0.113.0/24, peerGroup: tor}, {prefix: 198.51.100.0/24, peerGroup: tor}, {prefix: 198.51.100.0/23, peerGroup: tor}]}`,
			`here NoNextHop spec.dynamicNeighbors[0]: IPv6 routes are not announced, because there is no route to 203.0.113.0/24
			 here NoNextHop spec.dynamicNeighbors[1]: IPv6 routes are not announced, because this node has no global IPv6 address on eth1, by which it reaches 198.51.100.0/24: give it one, or leave the family out of afiSafis
			 here NoNextHop spec.dynamicNeighbors[2]: IPv6 routes are not announced, because 198.51.100.0/23 is behind eth1 and behind eth0: write a network for each of them`,
		},
		{
			"graceful restart of dynamic neighbors", `{peerGroups: [{config: {peerGroupName: tor, peerAsn: 64600}, gracefulRestart: {enabled: true}}, {config: {peerGroupName: helped, peerAsn: 64600}, gracefulRestart: {enabled: true, helperOnly: true}}], dynamicNeighbors: [{prefix: 192.0.2.0/24, peerGroup: tor}, {prefix: 192.0.3.0/24, peerGroup: helped}]}`,
			`NotSupported spec.dynamicNeighbors[0]: gracefulRestart is in effect in part: dynamic neighbors are not told of a restart of this node's speaker (RFC 4724), and may drop its routes until they receive them again: list them in spec.neighbors`,
		},
		{
			"VRFs", `{vrfs: [{name: red, rd: '64512:1', netlinkImport: {enabled: true, interfaceList: [eth1]}, netlinkExport: {enabled: true, linuxVrf: red}}, {name: red}]}`,
			`NotSupported spec.vrfs: VRFs are not supported, so they are not in effect: remove them`,
		},
		{
			"an import that is not enabled", `{netlinkImport: {interfaceList: [kube-lb0]}}`,
			`Adjusted spec.netlinkImport: is not in effect, because enabled is not true: set it, or remove the rest`,
		},
		{
			"an import with a bad pattern", `{netlinkImport: {enabled: true, interfaceList: ['eth[', '']}}`,
			`ParseError spec.netlinkImport.interfaceList[0]: "eth[" is neither the name of an interface nor a pattern such as eth*, and left out
			 ParseError spec.netlinkImport.interfaceList[1]: "" is neither the name of an interface nor a pattern such as eth*, and left out`,
		},
		{
			"an import into a VRF", `{netlinkImport: {enabled: true, vrf: red, interfaceList: [kube-lb0]}}`,
			`NotSupported spec.netlinkImport.vrf: VRFs are not supported, so nothing is imported: remove it, and the addresses are announced to all neighbors`,
		},
		{
			"an export that is not enabled", `{netlinkExport: {rules: [{name: all}]}}`,
			`Adjusted spec.netlinkExport: is not in effect, because enabled is not true: set it, or remove the rest`,
		},
		{
			"an export without a rule", `{netlinkExport: {enabled: true}}`,
			`Adjusted spec.netlinkExport.rules: nothing is exported without a rule: add one`,
		},
		{
			"rules without a name and of one name", `{netlinkExport: {enabled: true, rules: [{name: ''}, {name: all}, {name: all}]}}`,
			`ParseError spec.netlinkExport.rules[0].name: the rule has no name, and is not in use: write one
			 Duplicate spec.netlinkExport.rules[2].name: an earlier rule has the name "all", so this one is not in use: write another`,
		},
		{
			"rules with a wrong table, a wrong metric and VRFs", `{netlinkExport: {enabled: true, rules: [{name: all, tableId: -1}, {name: more, metric: 4294967296}, {name: red, vrf: red}, {name: blue, vrf: blue, tableId: 7}]}}`,
			`ParseError spec.netlinkExport.rules[0].tableId: -1 is not the number of a routing table: write one from 0 (the main one) to 4294967295
			 ParseError spec.netlinkExport.rules[1].metric: 4294967296 is not a metric: write one from 1 to 4294967295
			 NotSupported spec.netlinkExport.rules[2].vrf: VRFs are not supported, so the rule is not in use: write the number of the table of the VRF device into tableId
			 NotSupported spec.netlinkExport.rules[3].vrf: VRFs are not supported, so only tableId counts: remove vrf`,
		},
		{
			"a rule with wrong communities", `{netlinkExport: {enabled: true, rules: [{name: all, communityList: ['70000:1'], largeCommunityList: ['1:2']}]}}`,
			`ParseError spec.netlinkExport.rules[0].communityList[0]: "70000:1" is not a community: write two numbers from 0 to 65535, such as 64512:100, or a well-known name such as no-export; the rule is not in use
			 ParseError spec.netlinkExport.rules[0].largeCommunityList[0]: "1:2" is not a large community: write three numbers from 0 to 4294967295, such as 64512:100:1; the rule is not in use`,
		},
		{
			"a protocol of the kernel", `{netlinkExport: {enabled: true, routeProtocol: 2, rules: [{name: all}]}}`,
			`ParseError spec.netlinkExport.routeProtocol: 2 is not a number to mark our routes with, so nothing is exported: write one from 5 to 255`,
		},
		{
			"an export that is too slow", `{netlinkExport: {enabled: true, dampeningInterval: 60001, rules: [{name: all}]}}`,
			`ParseError spec.netlinkExport.dampeningInterval: 60001 is not from 1 to 60000, so 100 is used`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := decide(t, tt.config)
			if diff := cmp.Diff(trimmed(tt.want), complaints(d)); diff != "" {
				t.Errorf("the result differs (-want +got):\n%s", diff)
			}
			fatal := slices.ContainsFunc(d.Problems, func(p peering.Problem) bool { return p.Fatal })
			if d.OK == fatal {
				t.Errorf("OK is %v, want %v", d.OK, !fatal)
			}
			invariants(t, d)
		})
	}
}

// complaints prints the problems of d and the neighbors that are left out, a line each.
func complaints(d peering.Decision) string {
	var b strings.Builder
	for _, p := range d.Problems {
		fmt.Fprintf(&b, "%s%s%s %s\n", when(p.Fatal, "fatal "), when(p.Here, "here "), p.Reason, p)
	}
	for _, l := range d.LeftOut {
		fmt.Fprintf(&b, "without %s\n", l.Name)
	}
	return b.String()
}
