package peering_test

import "testing"

func TestMistakesInGlobalAreReported(t *testing.T) {
	reportMistakes(t, []mistake{
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
			"listen addresses that 0.0.0.0 stands for", `{global: {asn: 64512, listenAddresses: [0.0.0.0, 192.0.2.10, '2001:db8::10']}}`,
			`Duplicate spec.global.listenAddresses: 0.0.0.0 stands for all addresses of its family, so the other ones of that family are left out: remove it, or them`,
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
	})
}
