package peering_test

import "testing"

func TestMistakesInNeighborsAreReported(t *testing.T) {
	reportMistakes(t, []mistake{
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
			"passive neighbors without a password in a network of dynamic neighbors that have one", `{peerGroups: [{config: {peerGroupName: tor, peerAsn: 64600, authPasswordSecretRef: {name: bgp, key: password}}}], neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}, transport: {passiveMode: true}}, {config: {neighborAddress: 192.0.2.2, peerAsn: 64513}}, {config: {neighborAddress: 192.0.2.3, peerGroup: tor}, transport: {passiveMode: true}}], dynamicNeighbors: [{prefix: 192.0.2.0/24, peerGroup: tor}]}`,
			`here Conflict spec.neighbors[0].config: 192.0.2.1 cannot connect without a password, because 192.0.2.0/24 of spec.dynamicNeighbors[0] includes it and has a password: write one here too, set transport.passiveMode to false, or choose networks that do not include it`,
		},
		{
			"dynamic neighbors without a password in a network of others that have one", `{peerGroups: [{config: {peerGroupName: tor, peerAsn: 64600, authPasswordSecretRef: {name: bgp, key: password}}}, {config: {peerGroupName: open, peerAsn: 64600}}], dynamicNeighbors: [{prefix: 192.0.2.128/25, peerGroup: open}, {prefix: 192.0.2.0/24, peerGroup: tor}]}`,
			`here Conflict spec.dynamicNeighbors[0]: 192.0.2.128/25 cannot connect without a password, because 192.0.2.0/24 of spec.dynamicNeighbors[1] includes it and has a password: write one in its peer group too, or choose networks that do not include it`,
		},
		{
			"graceful restart of dynamic neighbors", `{peerGroups: [{config: {peerGroupName: tor, peerAsn: 64600}, gracefulRestart: {enabled: true}}, {config: {peerGroupName: helped, peerAsn: 64600}, gracefulRestart: {enabled: true, helperOnly: true}}], dynamicNeighbors: [{prefix: 192.0.2.0/24, peerGroup: tor}, {prefix: 192.0.3.0/24, peerGroup: helped}]}`,
			`NotSupported spec.dynamicNeighbors[0]: gracefulRestart is in effect in part: dynamic neighbors are not told of a restart of this node's speaker (RFC 4724), and may drop its routes until they receive them again: list them in spec.neighbors`,
		},
	})
}
