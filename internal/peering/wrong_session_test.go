package peering_test

import "testing"

func TestMistakesInSessionsAreReported(t *testing.T) {
	reportMistakes(t, []mistake{
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
	})
}
