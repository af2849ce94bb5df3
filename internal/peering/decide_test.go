package peering_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"purelb.io/purelb/internal/peering"
)

func TestAnASNumberIsEnough(t *testing.T) {
	d := decide(t, "{global: {asn: 64512}}")
	if diff := cmp.Diff(plain, print(d)); diff != "" {
		t.Errorf("the result differs (-want +got):\n%s", diff)
	}
	if !d.StatusEnabled || d.Heartbeat != time.Minute || d.AllowTransit {
		t.Errorf("the decision is %+v, want one without problems", d)
	}
}

// TestOptionsAreInEffect compares each spec with a configuration that has only the AS number.
func TestOptionsAreInEffect(t *testing.T) {
	tests := []struct{ name, config, want string }{
		{
			"a neighbor", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513, description: top of rack}}]}`,
			`peer 192.0.2.1 as 64513 from 64512 "top of rack" IPv4 IPv6 90/30/10 hops map[IPv6:2001:db8::10]
			 set neighbor purelb:neighbor 192.0.2.1 [192.0.2.1/32][]
			 export [purelb:next hop for IPv6 to 192.0.2.1] [IPv6] neighbors any of purelb:neighbor 192.0.2.1 -> via 2001:db8::10`,
		},
		{
			"neighbors in any other AS, and in the node's own", `{peerGroups: [{config: {peerGroupName: any, peerAsn: external, localAsn: 64600}}], neighbors: [
				{config: {neighborInterface: eth1, peerGroup: any}}, {config: {neighborInterface: eth2, peerAsn: internal, peerGroup: any}}, {config: {neighborInterface: eth3, peerAsn: internal}},
				{config: {neighborInterface: eth4, peerAsn: 64513, peerGroup: any}}]}`,
			`peer %eth1 as any 0 from 64600 IPv4 IPv6 90/30/10
			 peer %eth2 as 64600 from 64600 IPv4 IPv6 90/30/10
			 peer %eth3 as 64512 from 64512 IPv4 IPv6 90/30/10
			 peer %eth4 as 64513 from 64600 IPv4 IPv6 90/30/10`,
		},
		{
			"neighbors inside and outside of a confederation", `{global: {asn: 64512, confederation: {enabled: true, identifier: 65000, memberAsList: [64512, 64513]}}, neighbors: [
				{config: {neighborInterface: eth1, peerAsn: 64512}}, {config: {neighborInterface: eth2, peerAsn: 64513}}, {config: {neighborInterface: eth3, peerAsn: 64514}},
				{config: {neighborInterface: eth4, peerAsn: 64514, localAsn: 64512}}]}`,
			`not as 64512 id 192.0.2.10 (node-ipv4) port 179 families [IPv4 IPv6]
			 as 64512 id 192.0.2.10 (node-ipv4) port 179 families [IPv4 IPv6] confederation 65000 of [64512 64513]
			 peer %eth1 as 64512 from 64512 IPv4 IPv6 90/30/10
			 peer %eth2 as 64513 from 64512 IPv4 IPv6 90/30/10
			 peer %eth3 as 64514 from 65000 IPv4 IPv6 90/30/10
			 peer %eth4 as 64514 from 64512 IPv4 IPv6 90/30/10`,
		},
		{
			"AS path prepends in a confederation", `{global: {asn: 64512, confederation: {enabled: true, identifier: 65000, memberAsList: [64512]}, applyPolicy: {exportPolicy: {policies: [out]}}},
				policyDefinitions: [{name: out, statements: [{actions: {asPrepend: {repeat: 2}}}, {actions: {asPrepend: {asn: 64999}}}]}]}`,
			`not as 64512 id 192.0.2.10 (node-ipv4) port 179 families [IPv4 IPv6]
			 as 64512 id 192.0.2.10 (node-ipv4) port 179 families [IPv4 IPv6] confederation 65000 of [64512]
			 export [export out/0] -> prepend 0x2
			 export [export out/1] -> prepend 64999x1`,
		},
		{
			"dynamic neighbors in any other AS", `{peerGroups: [{config: {peerGroupName: any, peerAsn: external}}], dynamicNeighbors: [{prefix: 192.0.2.0/24, peerGroup: any}]}`,
			`group any as any 0 from 64512 IPv4 IPv6 90/30/10
			 dynamic 192.0.2.0/24 of any
			 set neighbor purelb:neighbor 192.0.2.0/24 [192.0.2.0/24][]
			 export [purelb:next hop for IPv6 to 192.0.2.0/24] [IPv6] neighbors any of purelb:neighbor 192.0.2.0/24 -> via 2001:db8::10`,
		},
		{
			"all global options", `{global: {asn: 4200000000, routerID: 10.9.9.9, listenPort: 1179, listenAddresses: ['192.0.2.10', '2001:db8::10'], families: [ipv6-unicast, ipv4-unicast], useMultiplePaths: true, allowTransit: true, bindToDevice: red, confederation: {enabled: true, identifier: 65000, memberAsList: [2, 1, 2]}, routeSelectionOptions: {alwaysCompareMed: true}}}`,
			`not as 64512 id 192.0.2.10 (node-ipv4) port 179 families [IPv4 IPv6]
			 not import nothing else
			 not export [purelb:transit external] external -> reject
			 not export [purelb:transit internal] internal -> reject
			 as 4200000000 id 10.9.9.9 (explicit) port 1179 at [192.0.2.10 2001:db8::10] on red families [IPv4 IPv6] multipath always-med confederation 65000 of [1 2]
			 export [purelb:long path] path>=129 -> reject
			 export [purelb:many communities] communities>=129 -> reject`,
		},
		{
			"the internal addresses of the node to listen at", `{global: {asn: 64512, listenAddresses: [2001:db8::10, '${NODE_IP}', 198.51.100.7, '${NODE_IP}']}}`,
			`not as 64512 id 192.0.2.10 (node-ipv4) port 179 families [IPv4 IPv6]
			 as 64512 id 192.0.2.10 (node-ipv4) port 179 at [2001:db8::10 192.0.2.10 198.51.100.7] families [IPv4 IPv6]`,
		},
		{
			"only IPv4", `{global: {asn: 64512, families: [ipv4-unicast], listenPort: -1}, neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}}]}`,
			`not as 64512 id 192.0.2.10 (node-ipv4) port 179 families [IPv4 IPv6]
			 as 64512 id 192.0.2.10 (node-ipv4) port -1 families [IPv4]
			 peer 192.0.2.1 as 64513 from 64512 IPv4 90/30/10`,
		},
		{
			"the router ID by template", `{global: {asn: 64512, routerID: '${NODE_IP}'}}`,
			`not as 64512 id 192.0.2.10 (node-ipv4) port 179 families [IPv4 IPv6]
			 as 64512 id 192.0.2.10 (template) port 179 families [IPv4 IPv6]`,
		},
		{
			"the router ID by the external address", `{global: {asn: 64512, routerID: '${NODE_EXTERNAL_IP}'}}`,
			`not as 64512 id 192.0.2.10 (node-ipv4) port 179 families [IPv4 IPv6]
			 as 64512 id 203.0.113.10 (template) port 179 families [IPv4 IPv6]`,
		},
		{
			"the router ID by annotation", `{global: {asn: 64512, routerID: "${node.annotations['example.com/router-id']}"}}`,
			`not as 64512 id 192.0.2.10 (node-ipv4) port 179 families [IPv4 IPv6]
			 as 64512 id 192.0.2.77 (template) port 179 families [IPv4 IPv6]`,
		},
		{
			"all options of a neighbor", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513, localAsn: 64999, authPasswordSecretRef: {name: bgp, key: password}, adminDown: true}, afiSafis: [{family: ipv6-unicast, enabled: true, addPaths: {receive: true, sendMax: 4}}, {family: ipv4-unicast, enabled: true, prefixLimit: {maxPrefixes: 100, shutdownThresholdPct: 80}}], timers: {config: {holdTime: 9, keepaliveInterval: 2, connectRetry: 5}}, transport: {localAddress: 192.0.2.10, passiveMode: true, bindInterface: eth0, remotePort: 1790}, gracefulRestart: {enabled: true, restartTime: 60, deferralTime: 2, longLivedRestartTime: 3600, helperOnly: true}, ttlSecurity: {ttlMin: 254}, bfd: {minReceiveIntervalMilliseconds: 100, minTransmitIntervalMilliseconds: 50, detectionMultiplier: 5}}]}`,
			`peer 192.0.2.1 as 64513 from 64999 password swordfish IPv4<100(80%) IPv6+receive+send4 9/2/5 by 192.0.2.10 on eth0 passive ttl 254 restart 1m0s deferral 2s helper long 1h0m0s bfd 50ms/100msx5 port 1790 down hops map[IPv6:2001:db8::10]
			 set neighbor purelb:neighbor 192.0.2.1 [192.0.2.1/32][]
			 export [purelb:next hop for IPv6 to 192.0.2.1] [IPv6] neighbors any of purelb:neighbor 192.0.2.1 -> via 2001:db8::10`,
		},
		{
			"a multihop neighbor", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}, ebgpMultihop: {enabled: true}}]}`,
			`peer 192.0.2.1 as 64513 from 64512 IPv4 IPv6 90/30/10 multihop 255 hops map[IPv6:2001:db8::10]
			 set neighbor purelb:neighbor 192.0.2.1 [192.0.2.1/32][]
			 export [purelb:next hop for IPv6 to 192.0.2.1] [IPv6] neighbors any of purelb:neighbor 192.0.2.1 -> via 2001:db8::10`,
		},
		{
			"BFD with multihop neighbors", `{neighbors: [{config: {neighborInterface: eth1, peerAsn: 64513}, ebgpMultihop: {enabled: true, multihopTtl: 3}, bfd: {}}, {config: {neighborInterface: eth2, peerAsn: 64513}, ebgpMultihop: {enabled: true}, bfd: {minimumTtl: 250, passive: true}}, {config: {neighborInterface: eth3, peerAsn: 64512}, bfd: {multihop: true}}, {config: {neighborInterface: eth4, peerAsn: 64513}, ebgpMultihop: {enabled: true}, bfd: {multihop: false}}]}`,
			`peer %eth1 as 64513 from 64512 IPv4 IPv6 90/30/10 multihop 3 bfd 300ms/300msx3 ttl 253
			 peer %eth2 as 64513 from 64512 IPv4 IPv6 90/30/10 multihop 255 bfd 300ms/300msx3 ttl 250 passive
			 peer %eth3 as 64512 from 64512 IPv4 IPv6 90/30/10 bfd 300ms/300msx3 ttl 254
			 peer %eth4 as 64513 from 64512 IPv4 IPv6 90/30/10 multihop 255 bfd 300ms/300msx3`,
		},
		{
			"a neighbor whose group accepts routes of the node's own AS", `{peerGroups: [{config: {peerGroupName: tor, peerAsn: 64513}, allowOwnAsn: 1}], neighbors: [{config: {neighborInterface: eth1, peerGroup: tor}}]}`,
			`peer %eth1 as 64513 from 64512 IPv4 IPv6 90/30/10 own 1`,
		},
		{
			"an unnumbered neighbor", `{neighbors: [{config: {neighborInterface: eth1, peerAsn: 64513}}]}`,
			`peer %eth1 as 64513 from 64512 IPv4 IPv6 90/30/10`,
		},
		{
			"a link-local neighbor", `{neighbors: [{config: {neighborAddress: 'fe80::1%eth1', peerAsn: 64513}}]}`,
			`peer fe80::1%eth1 as 64513 from 64512 IPv4 IPv6 90/30/10`,
		},
		{
			"a neighbor over IPv6 gets IPv4 routes with an IPv4 next hop", `{neighbors: [{config: {neighborAddress: '2001:db8::1', peerAsn: 64513}}]}`,
			`peer 2001:db8::1 as 64513 from 64512 IPv4 IPv6 90/30/10 hops map[IPv4:192.0.2.10]
			 set neighbor purelb:neighbor 2001:db8::1 [2001:db8::1/128][]
			 export [purelb:next hop for IPv4 to 2001:db8::1] [IPv4] neighbors any of purelb:neighbor 2001:db8::1 -> via 192.0.2.10`,
		},
		{
			"a neighbor over IPv6 without an IPv4 address on the interface", `{neighbors: [{config: {neighborAddress: '2001:db8:51::1', peerAsn: 64513}}]}`,
			`peer 2001:db8:51::1 as 64513 from 64512 IPv4 IPv6 90/30/10`,
		},
		{
			"a disabled family needs no next hop", `{neighbors: [{config: {neighborAddress: 198.51.100.1, peerAsn: 64513}, afiSafis: [{family: ipv4-unicast, enabled: true}]}]}`,
			`peer 198.51.100.1 as 64513 from 64512 IPv4 90/30/10`,
		},
		{
			"a neighbor in the node's own AS: learned routes keep their next hop", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64512}}]}`,
			`peer 192.0.2.1 as 64512 from 64512 IPv4 IPv6 90/30/10 hops map[IPv6:2001:db8::10]
			 set neighbor purelb:neighbor 192.0.2.1 [192.0.2.1/32][]
			 export [purelb:next hop for IPv6 to 192.0.2.1] local [IPv6] neighbors any of purelb:neighbor 192.0.2.1 -> via 2001:db8::10`,
		},
		{
			"clients of a route reflector", `{neighbors: [{config: {neighborAddress: 198.51.100.1, peerAsn: 64512}, afiSafis: [{family: ipv4-unicast}], routeReflector: {routeReflectorClient: true, routeReflectorClusterId: 10.0.0.1}}, {config: {neighborInterface: eth7, peerAsn: 64512}, routeReflector: {routeReflectorClient: true}}]}`,
			`not import nothing else
			 not export [purelb:transit internal] internal -> reject
			 peer %eth7 as 64512 from 64512 IPv4 IPv6 90/30/10 client
			 peer 198.51.100.1 as 64512 from 64512 IPv4 90/30/10 client of 10.0.0.1
			 set neighbor purelb:clients [198.51.100.1/32 %eth7][]
			 export [purelb:long path] path>=129 -> reject
			 export [purelb:many communities] communities>=129 -> reject
			 export [purelb:transit internal] internal neighbors invert of purelb:clients -> reject`,
		},
		{
			"neighbors with a node selector", `{neighbors: [{config: {neighborInterface: eth1, peerAsn: 64513}, nodeSelector: {matchLabels: {rack: '1'}}}, {config: {neighborInterface: eth2, peerAsn: 64513}, nodeSelector: {matchLabels: {rack: '2'}}}]}`,
			`peer %eth1 as 64513 from 64512 IPv4 IPv6 90/30/10`,
		},
		{
			"the same neighbor by rack", `{neighbors: [{config: {neighborInterface: eth1, peerAsn: 64513}, nodeSelector: {matchLabels: {rack: '2'}}}, {config: {neighborInterface: eth1, peerAsn: 64514}, nodeSelector: {matchLabels: {rack: '1'}}}]}`,
			`peer %eth1 as 64514 from 64512 IPv4 IPv6 90/30/10`,
		},
		{
			"a full mesh of nodes", `{neighbors: [{config: {neighborAddress: 192.0.2.10, peerAsn: 64512}}, {config: {neighborInterface: eth1, peerAsn: 64512}}]}`,
			`peer %eth1 as 64512 from 64512 IPv4 IPv6 90/30/10`,
		},
		{
			"a neighbor overrides options of its group", `{peerGroups: [{config: {peerGroupName: tor, peerAsn: 64600, description: rack, authPassword: sesame}, timers: {config: {holdTime: 30}}, afiSafis: [{family: ipv4-unicast}], bfd: {detectionMultiplier: 5}, transport: {passiveMode: true}, gracefulRestart: {enabled: true}}], neighbors: [{config: {neighborAddress: 192.0.2.1, peerGroup: tor, authPasswordSecretRef: {name: bgp, key: password}}, timers: {config: {connectRetry: 3}}, bfd: {minReceiveIntervalMilliseconds: 200}, transport: {passiveMode: false}, gracefulRestart: {restartTime: 30}}, {config: {neighborAddress: 192.0.2.2, peerGroup: tor, peerAsn: 64601, description: spine}, bfd: {enabled: false}}]}`,
			`peer 192.0.2.1 as 64600 from 64512 "rack" password swordfish IPv4 30/10/3 restart 30s deferral 5s bfd 300ms/200msx5
			 peer 192.0.2.2 as 64601 from 64512 "spine" password sesame IPv4 30/10/10 passive restart 2m0s deferral 5s`,
		},
		{
			"the node selector of a group applies to its neighbors", `{peerGroups: [{config: {peerGroupName: tor, peerAsn: 64600}, nodeSelector: {matchLabels: {rack: '2'}}}], neighbors: [{config: {neighborAddress: 192.0.2.1, peerGroup: tor}}, {config: {neighborInterface: eth1, peerAsn: 64600}}]}`,
			`peer %eth1 as 64600 from 64512 IPv4 IPv6 90/30/10`,
		},
		{
			"graceful restart for all", `{global: {asn: 64512, gracefulRestart: {enabled: true, restartTime: 90}}, neighbors: [{config: {neighborInterface: eth1, peerAsn: 64513}}, {config: {neighborInterface: eth2, peerAsn: 64513}, gracefulRestart: {enabled: false}}, {config: {neighborInterface: eth3, peerAsn: 64513}, gracefulRestart: {restartTime: 30}}]}`,
			`peer %eth1 as 64513 from 64512 IPv4 IPv6 90/30/10 restart 1m30s deferral 5s
			 peer %eth2 as 64513 from 64512 IPv4 IPv6 90/30/10
			 peer %eth3 as 64513 from 64512 IPv4 IPv6 90/30/10 restart 30s deferral 5s`,
		},
		{
			"dynamic neighbors", `{peerGroups: [{config: {peerGroupName: tor, peerAsn: 64600, authPasswordSecretRef: {name: bgp, key: '80'}}}, {config: {peerGroupName: idle}}], dynamicNeighbors: [{prefix: 192.0.2.128/25, peerGroup: tor}, {prefix: 192.0.2.0/24, peerGroup: tor}]}`,
			`group tor as 64600 from 64512 password xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx IPv4 IPv6 90/30/10
			 dynamic 192.0.2.0/24 of tor
			 dynamic 192.0.2.128/25 of tor
			 set neighbor purelb:neighbor 192.0.2.0/24 [192.0.2.0/25][]
			 set neighbor purelb:neighbor 192.0.2.128/25 [192.0.2.128/25][]
			 export [purelb:next hop for IPv6 to 192.0.2.0/24] [IPv6] neighbors any of purelb:neighbor 192.0.2.0/24 -> via 2001:db8::10
			 export [purelb:next hop for IPv6 to 192.0.2.128/25] [IPv6] neighbors any of purelb:neighbor 192.0.2.128/25 -> via 2001:db8::10`,
		},
		{
			"a configured neighbor in the network of dynamic neighbors", `{peerGroups: [{config: {peerGroupName: tor, peerAsn: 64600}}], dynamicNeighbors: [{prefix: 192.0.2.0/30, peerGroup: tor}], neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}}]}`,
			`group tor as 64600 from 64512 IPv4 IPv6 90/30/10
			 dynamic 192.0.2.0/30 of tor
			 peer 192.0.2.1 as 64513 from 64512 IPv4 IPv6 90/30/10 hops map[IPv6:2001:db8::10]
			 set neighbor purelb:neighbor 192.0.2.0/30 [192.0.2.0/32 192.0.2.2/31][]
			 set neighbor purelb:neighbor 192.0.2.1 [192.0.2.1/32][]
			 export [purelb:next hop for IPv6 to 192.0.2.0/30] [IPv6] neighbors any of purelb:neighbor 192.0.2.0/30 -> via 2001:db8::10
			 export [purelb:next hop for IPv6 to 192.0.2.1] [IPv6] neighbors any of purelb:neighbor 192.0.2.1 -> via 2001:db8::10`,
		},
		{
			"a neighbor that is left out is no dynamic neighbor", `{peerGroups: [{config: {peerGroupName: tor, peerAsn: 64600}, afiSafis: [{family: ipv4-unicast}]}], dynamicNeighbors: [{prefix: 192.0.2.0/30, peerGroup: tor}], neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513, vrf: red}}, {config: {neighborAddress: 192.0.2.5, vrf: red}}]}`,
			`group tor as 64600 from 64512 IPv4 90/30/10
			 dynamic 192.0.2.0/30 of tor
			 peer 192.0.2.1 as 64513 from 64512 IPv4 IPv6 90/30/10 passive down
			 left out 192.0.2.1 as 64513: spec.neighbors[0].config.vrf: VRFs are not supported, so the neighbor is left out: remove vrf, and it gets the routes that all neighbors get
			 left out 192.0.2.5 as 0: spec.neighbors[1].config.peerAsn: the number of the neighbor's AS is not known: write it here, or in its peer group
			 NotSupported spec.neighbors[0].config.vrf: VRFs are not supported, so the neighbor is left out: remove vrf, and it gets the routes that all neighbors get
			 ParseError spec.neighbors[1].config.peerAsn: the number of the neighbor's AS is not known: write it here, or in its peer group
			 NotSupported spec.neighbors[1].config.vrf: VRFs are not supported, so the neighbor is left out: remove vrf, and it gets the routes that all neighbors get`,
		},
		{
			"a neighbor of an unknown AS is no dynamic neighbor, and a duplicate one stays", `{peerGroups: [{config: {peerGroupName: tor, peerAsn: 64600}, afiSafis: [{family: ipv4-unicast}]}], dynamicNeighbors: [{prefix: 192.0.2.0/30, peerGroup: tor}], neighbors: [{config: {neighborAddress: 192.0.2.1}}, {config: {neighborAddress: 192.0.2.2, peerGroup: tor}}, {config: {neighborAddress: 192.0.2.2, peerGroup: tor}}]}`,
			`group tor as 64600 from 64512 IPv4 90/30/10
			 dynamic 192.0.2.0/30 of tor
			 peer 192.0.2.1 as 64512 from 64512 IPv4 IPv6 90/30/10 passive down
			 peer 192.0.2.2 as 64600 from 64512 IPv4 90/30/10
			 left out 192.0.2.1 as 0: spec.neighbors[0].config.peerAsn: the number of the neighbor's AS is not known: write it here, or in its peer group
			 left out 192.0.2.2 as 64600: spec.neighbors[2].config: an earlier neighbor is 192.0.2.2 too (see spec.neighbors[1]), so this one is left out: remove one of them
			 ParseError spec.neighbors[0].config.peerAsn: the number of the neighbor's AS is not known: write it here, or in its peer group
			 Duplicate spec.neighbors[2].config: an earlier neighbor is 192.0.2.2 too (see spec.neighbors[1]), so this one is left out: remove one of them`,
		},
		{
			"a session that is bound to an interface has the next hops of the interface", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}, transport: {bindInterface: eth2}}, {config: {neighborAddress: '2001:db8::1', peerAsn: 64513}, transport: {bindInterface: eth2}}]}`,
			`peer 192.0.2.1 as 64513 from 64512 IPv4 IPv6 90/30/10 on eth2 hops map[IPv6:2001:db8:2::b]
			 peer 2001:db8::1 as 64513 from 64512 IPv4 IPv6 90/30/10 on eth2 hops map[IPv4:172.16.0.2]
			 set neighbor purelb:neighbor 192.0.2.1 [192.0.2.1/32][]
			 set neighbor purelb:neighbor 2001:db8::1 [2001:db8::1/128][]
			 export [purelb:next hop for IPv6 to 192.0.2.1] [IPv6] neighbors any of purelb:neighbor 192.0.2.1 -> via 2001:db8:2::b
			 export [purelb:next hop for IPv4 to 2001:db8::1] [IPv4] neighbors any of purelb:neighbor 2001:db8::1 -> via 172.16.0.2`,
		},
		{
			"dynamic neighbors that are bound to an interface", `{peerGroups: [{config: {peerGroupName: tor, peerAsn: 64600}, transport: {bindInterface: eth2}}], dynamicNeighbors: [{prefix: 0.0.0.0/0, peerGroup: tor}]}`,
			`group tor as 64600 from 64512 IPv4 IPv6 90/30/10 on eth2
			 dynamic 0.0.0.0/0 of tor
			 set neighbor purelb:neighbor 0.0.0.0/0 [0.0.0.0/0][]
			 export [purelb:next hop for IPv6 to 0.0.0.0/0] [IPv6] neighbors any of purelb:neighbor 0.0.0.0/0 -> via 2001:db8:2::b`,
		},
		{
			"dynamic neighbors over IPv6", `{peerGroups: [{config: {peerGroupName: tor, peerAsn: 64600}}], dynamicNeighbors: [{prefix: '2001:db8::/64', peerGroup: tor}, {prefix: '2001:db8:51::/64', peerGroup: tor}]}`,
			`group tor as 64600 from 64512 IPv4 IPv6 90/30/10
			 dynamic 2001:db8::/64 of tor
			 dynamic 2001:db8:51::/64 of tor
			 set neighbor purelb:neighbor 2001:db8::/64 [2001:db8::/64][]
			 export [purelb:next hop for IPv4 to 2001:db8::/64] [IPv4] neighbors any of purelb:neighbor 2001:db8::/64 -> via 192.0.2.10`,
		},
		{
			"policies for all", `{global: {asn: 64512, applyPolicy: {importPolicy: {policies: [quiet], defaultAction: reject}, exportPolicy: {policies: [loud, quiet]}}}, definedSets: [{type: prefix, name: ours, prefixes: [{ipPrefix: 198.51.100.1/24, maskLengthMin: 25, maskLengthMax: 32}, {ipPrefix: 0.0.0.0/0}]}, {type: community, name: ours, list: [no-export, '64512:.*']}, {type: large-community, name: ours, list: ['064512:1:2']}, {type: as-path, name: ours, list: ['^64513_']}, {type: neighbor, name: routers, list: [192.0.2.1, 192.0.2.8/29]}], policyDefinitions: [{name: loud, statements: [{name: first, conditions: {prefixSet: {name: ours}, neighborSet: {name: routers, match: invert}, asPathSet: {name: ours, match: all}, communitySet: {name: ours, match: any}, largeCommunitySet: {name: ours}}, actions: {community: {type: replace, communities: [graceful-shutdown]}, largeCommunity: {type: remove, communities: ['1:2:3']}, med: {type: mod, value: -5}, localPref: 50, asPrepend: {repeat: 3}}}, {actions: {med: {value: 7}, asPrepend: {asn: 64999}, community: {communities: ['64512:7']}, routeAction: accept}}]}, {name: quiet, statements: [{name: '0', actions: {routeAction: reject}}]}]}`,
			`set as-path ours [^64513_][]
			 set community ours [65535:65281 64512:.*][]
			 set large-community ours [64512:1:2][]
			 set neighbor routers [192.0.2.1/32 192.0.2.8/29][]
			 set prefix ours [][{198.51.100.0/24 25 32} {0.0.0.0/0 0 0}]
			 import [import quiet/0] -> reject
			 export [export loud/first] prefixes any of ours neighbors invert of routers paths all of ours communities any of ours large any of ours -> replace [65535:0] remove [1:2:3] med+-5 pref=50 prepend 64512x3
			 export [export loud/1] -> add [64512:7] med=7 prepend 64999x1 accept
			 export [export quiet/0] -> reject`,
		},
		{
			"policies for some neighbors", `{definedSets: [{type: neighbor, name: low, list: [192.0.2.0/30]}], policyDefinitions: [{name: out, statements: [{name: low, conditions: {neighborSet: {name: low}}, actions: {routeAction: reject}}, {name: high, conditions: {neighborSet: {name: low, match: invert}}, actions: {med: {value: 9}}}, {name: all, actions: {routeAction: accept}}]}], peerGroups: [{config: {peerGroupName: tor, peerAsn: 64600}, afiSafis: [{family: ipv4-unicast}], applyPolicy: {exportPolicy: {policies: [out], defaultAction: reject}}}], neighbors: [{config: {neighborAddress: 192.0.2.1, peerGroup: tor}}, {config: {neighborAddress: 192.0.2.4, peerGroup: tor}, applyPolicy: {importPolicy: {defaultAction: reject}}}, {config: {neighborAddress: 192.0.2.5, peerGroup: tor}, applyPolicy: {exportPolicy: {}}}, {config: {neighborInterface: eth1, peerGroup: tor}}]}`,
			`peer %eth1 as 64600 from 64512 IPv4 90/30/10
			 peer 192.0.2.1 as 64600 from 64512 IPv4 90/30/10
			 peer 192.0.2.4 as 64600 from 64512 IPv4 90/30/10
			 peer 192.0.2.5 as 64600 from 64512 IPv4 90/30/10
			 set neighbor low [192.0.2.0/30][]
			 set neighbor purelb:export ["out"], else reject [192.0.2.1/32 192.0.2.4/32 %eth1][]
			 set neighbor purelb:export ["out"], else reject out/high [192.0.2.4/32 %eth1][]
			 set neighbor purelb:export ["out"], else reject out/low [192.0.2.1/32][]
			 set neighbor purelb:import [], else reject [192.0.2.4/32][]
			 import [purelb:import [], else reject rest] neighbors any of purelb:import [], else reject -> reject
			 export [purelb:export ["out"], else reject out/low] neighbors any of purelb:export ["out"], else reject out/low -> reject
			 export [purelb:export ["out"], else reject out/high] neighbors any of purelb:export ["out"], else reject out/high -> med=9
			 export [purelb:export ["out"], else reject out/all] neighbors any of purelb:export ["out"], else reject -> accept
			 export [purelb:export ["out"], else reject rest] neighbors any of purelb:export ["out"], else reject -> reject`,
		},
		{
			"import from the kernel and export to the kernel", `{netlinkImport: {enabled: true, interfaceList: [kube-lb0, kube-lb0, 'lo*']}, netlinkExport: {enabled: true, dampeningInterval: 50, routeProtocol: 99, rules: [{name: all, allowDefaultRoute: true}, {name: some, communityList: ['64512:1', blackhole], largeCommunityList: ['1:02:3'], tableId: 100, metric: 5, validateNexthop: false}, {name: older, vrf: blue, tableId: 9}]}}`,
			`not import nothing else
			 not take []
			 take ["kube-lb0" "lo*"]
			 put all to table 0 metric 20 validated default after 50ms as 99
			 put some [4227858433 4294902426] [1:2:3] to table 100 metric 5 after 50ms as 99
			 put older to table 9 metric 20 validated after 50ms as 99
			 NotSupported spec.netlinkExport.rules[2].vrf: VRFs are not supported, so only tableId counts: remove vrf`,
		},
		{
			"the import has the configured name of the dummy interface", `{netlinkImport: {enabled: true}}`,
			``,
		},
		{
			"no import", `{netlinkImport: {enabled: false}}`,
			`not take []`,
		},
		{
			"a password that may be missing", `{neighbors: [{config: {neighborInterface: eth1, peerAsn: 64513, authPasswordSecretRef: {name: none, key: none, optional: true}}}]}`,
			`peer %eth1 as 64513 from 64512 IPv4 IPv6 90/30/10`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := decide(t, tt.config)
			if diff := cmp.Diff(trimmed(tt.want), beyond(d)); diff != "" {
				t.Errorf("the result differs (-want +got):\n%s", diff)
			}
			invariants(t, d)
		})
	}
}

func TestNoInternalAddressesToListenAtAreReported(t *testing.T) {
	d := peering.Merged{Spec: config(t, "{global: {asn: 64512, listenAddresses: ['${NODE_IP}']}}")}.Decide(peering.Node{Name: "node-1"}, secrets, egress)
	want := "${NODE_IP} stands for the internal addresses of the Node, which has none: write addresses"
	if !slices.ContainsFunc(d.Problems, func(p peering.Problem) bool {
		return p.Field == "spec.global.listenAddresses[0]" && p.Message == want
	}) {
		t.Errorf("got the problems %v, want one of listenAddresses[0]: %s", d.Problems, want)
	}
}

// The kernel refuses a socket at an address beside one at all addresses.
func TestNoAddressToListenAtIsCoveredByAnother(t *testing.T) {
	for listen, want := range map[string]string{
		"[192.0.2.10, 0.0.0.0, '2001:db8::10']": "[0.0.0.0 2001:db8::10]",
		"['::', '2001:db8::10', 192.0.2.10]":    "[:: 192.0.2.10]",
		"['::', 0.0.0.0]":                       "[:: 0.0.0.0]",
		"['${NODE_IP}', 0.0.0.0, '::']":         "[0.0.0.0 ::]",
	} {
		if got := fmt.Sprint(decide(t, "{global: {asn: 64512, listenAddresses: "+listen+"}}").State.Global.Listen); got != want {
			t.Errorf("with %s, the node listens at %s, want %s", listen, got, want)
		}
	}
}

func TestTemplatesWithoutAValueAreReported(t *testing.T) {
	for template, want := range map[string]string{
		"${NODE_IP}":                     "the node has no internal IPv4 address",
		"${NODE_IPV4}":                   "the node has no internal IPv4 address",
		"${NODE_EXTERNAL_IP}":            "the node has no external IPv4 address",
		"${node.annotations['a.b/c-d']}": "the node node-a has no annotation a.b/c-d: set it, such as with kubectl annotate node node-a a.b/c-d=192.0.2.10",
		"${node.labels['a.b/c-d']}":      "the node node-a has no label a.b/c-d: set it, such as with kubectl label node node-a a.b/c-d=192.0.2.10",
	} {
		spec := config(t, "{global: {asn: 64512}}")
		spec.Global.RouterID = template
		d := peering.Merged{Spec: spec}.Decide(peering.Node{Name: "node-a"}, secrets, egress)
		if d.OK || !strings.Contains(print(d), "fatal here RouterIDResolutionFailed spec.global.routerID: there is no router ID: "+want) {
			t.Errorf("%s: the decision is\n%s\nwant the problem %q", template, print(d), want)
		}
	}
}

// TestAllSecretsAreListed includes the Secrets of neighbors of other nodes. A missing Secret is a
// mistake of the configuration on all nodes.
func TestAllSecretsAreListed(t *testing.T) {
	d := decide(t, `{peerGroups: [{config: {peerGroupName: tor, authPasswordSecretRef: {name: c, key: d}}}],
		neighbors: [{config: {neighborInterface: eth1, peerAsn: 1, authPasswordSecretRef: {name: b, key: b}}, nodeSelector: {matchLabels: {rack: '9'}}},
			{config: {neighborInterface: eth2, peerAsn: 1, authPasswordSecretRef: {name: b, key: a}}},
			{config: {neighborInterface: eth3, peerAsn: 1, authPasswordSecretRef: {name: b, key: a}}}]}`)
	want := []peering.SecretRef{{Name: "b", Key: "a"}, {Name: "b", Key: "b"}, {Name: "c", Key: "d"}}
	if diff := cmp.Diff(want, d.Secrets); diff != "" {
		t.Errorf("the result differs (-want +got):\n%s", diff)
	}
}

// TestTheOrderInTheSpecHasNoEffect is about neighbors and sets. The order of statements
// has an effect, and so has the order of two neighbors with one address.
func TestTheOrderInTheSpecHasNoEffect(t *testing.T) {
	const a, b = "{config: {neighborAddress: 192.0.2.1, peerAsn: 1}}", "{config: {neighborAddress: '2001:db8::1', peerAsn: 2}}"
	const x, y = "{type: neighbor, name: x, list: [192.0.2.1]}", "{type: as-path, name: y, list: ['1']}"
	one := decide(t, "{neighbors: ["+a+", "+b+"], definedSets: ["+x+", "+y+"]}")
	other := decide(t, "{neighbors: ["+b+", "+a+"], definedSets: ["+y+", "+x+"]}")
	if diff := cmp.Diff(print(one), print(other)); diff != "" {
		t.Errorf("the result differs (-want +got):\n%s", diff)
	}
}

// The password is too long.
func TestProblemsDoNotShowPasswords(t *testing.T) {
	long := strings.Repeat("hush", 21)
	d := decide(t, "{neighbors: [{config: {neighborInterface: eth1, peerAsn: 1, authPassword: "+long+"}}]}")
	if len(d.Problems) != 1 || strings.Contains(complaints(d)+d.LeftOut[0].Message, "hush") {
		t.Error(complaints(d))
	}
}
