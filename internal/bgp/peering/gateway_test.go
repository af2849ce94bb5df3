package peering_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/bgp/peering"
)

// routed returns the node of the tables with these default gateways.
func routed(gateways map[addr.Family]peering.Gateway) peering.Node {
	n := node
	n.Gateways = gateways
	return n
}

func TestTheDefaultGatewayIsANeighbor(t *testing.T) {
	v4 := map[addr.Family]peering.Gateway{addr.V4: {Address: netip.MustParseAddr("198.51.100.1")}}
	tests := []struct {
		name, config string
		gateways     map[addr.Family]peering.Gateway
		want         string
	}{
		{
			"IPv4", `{neighbors: [{config: {neighborGateway: ipv4, peerAsn: external}, afiSafis: [{family: ipv4-unicast}]}]}`, v4,
			"peer 198.51.100.1 as any 0 from 64512 IPv4 90/30/2\n",
		},
		{
			"a link-local IPv6 gateway", `{neighbors: [{config: {neighborGateway: ipv6, peerAsn: 64513}}]}`,
			map[addr.Family]peering.Gateway{addr.V6: {Address: netip.MustParseAddr("fe80::1%eth0")}},
			"peer fe80::1%eth0 as 64513 from 64512 IPv4 IPv6 90/30/2\n",
		},
		{
			"a node without a default route", `{neighbors: [{config: {neighborGateway: ipv6, peerAsn: 64513, description: spine}}]}`, v4,
			`left out gateway ipv6 as 64513: spec.neighbors[0].config.neighborGateway: this node has no default route of ipv6 in the main routing table, so there is no such neighbor: add the route, or write neighborAddress
here NoDefaultRoute spec.neighbors[0].config.neighborGateway: this node has no default route of ipv6 in the main routing table, so there is no such neighbor: add the route, or write neighborAddress
`,
		},
		{
			"a node that lost its default route", `{neighbors: [{config: {neighborGateway: ipv4, peerAsn: 64513}, afiSafis: [{family: ipv4-unicast}]}]}`,
			map[addr.Family]peering.Gateway{addr.V4: {Address: netip.MustParseAddr("198.51.100.1"), Lost: true}},
			`peer 198.51.100.1 as 64513 from 64512 IPv4 90/30/2
here NoDefaultRoute spec.neighbors[0].config.neighborGateway: this node has lost its default route of ipv4, so the last known gateway 198.51.100.1 stays the neighbor: add the route again
`,
		},
		{
			"the gateway of other nodes", `{neighbors: [{config: {neighborGateway: ipv6, peerAsn: 64513}, nodeSelector: {matchLabels: {rack: '2'}}, transport: {localAddress: 192.0.2.10}},
				{config: {neighborGateway: ipv4, peerAsn: 64513}, afiSafis: [{family: ipv4-unicast}]}]}`, v4,
			"peer 198.51.100.1 as 64513 from 64512 IPv4 90/30/2\n",
		},
		{
			"a gateway that is already a neighbor", `{neighbors: [{config: {neighborAddress: 198.51.100.1, peerAsn: 64513}, afiSafis: [{family: ipv4-unicast}]}, {config: {neighborGateway: ipv4, peerAsn: 64513}}]}`, v4,
			`peer 198.51.100.1 as 64513 from 64512 IPv4 90/30/2
left out 198.51.100.1 as 64513: spec.neighbors[1].config: an earlier neighbor is 198.51.100.1 too (see spec.neighbors[0]), so this one is left out: remove one of them
here Duplicate spec.neighbors[1].config: an earlier neighbor is 198.51.100.1 too (see spec.neighbors[0]), so this one is left out: remove one of them
`,
		},
		{
			"an address of the other family", `{neighbors: [{config: {neighborGateway: ipv4, peerAsn: 64513}, transport: {localAddress: '2001:db8::10'}}]}`, v4,
			`left out 198.51.100.1 as 64513: spec.neighbors[0].transport.localAddress: a session with 198.51.100.1 cannot be from 2001:db8::10: write an address of the same family
here Conflict spec.neighbors[0].transport.localAddress: a session with 198.51.100.1 cannot be from 2001:db8::10: write an address of the same family
`,
		},
		{
			"a node that is its own gateway", `{neighbors: [{config: {neighborGateway: ipv4, peerAsn: 64513}}]}`,
			map[addr.Family]peering.Gateway{addr.V4: {Address: netip.MustParseAddr("192.0.2.10")}}, "",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := peering.Decide(config(t, tt.config), routed(tt.gateways), secrets, egress)
			invariants(t, d)
			if diff := cmp.Diff(tt.want, lines(print(d), "peer ", "left out ", "NoDefaultRoute ", "Duplicate ", "Conflict ", "ParseError ")); diff != "" {
				t.Errorf("the result differs (-want +got):\n%s", diff)
			}
		})
	}
}

// lines returns the lines of text that begin with one of the words, or with "here" and one of the
// words.
func lines(text string, words ...string) string {
	var all strings.Builder
	for line := range strings.Lines(text) {
		for _, w := range words {
			if strings.HasPrefix(strings.TrimPrefix(line, "here "), w) {
				all.WriteString(line)
			}
		}
	}
	return all.String()
}

func TestOnlyConfiguredGatewaysAreRead(t *testing.T) {
	s := config(t, `{neighbors: [{config: {neighborGateway: ipv6, peerAsn: 1}}, {config: {neighborAddress: 192.0.2.1, peerAsn: 1}}, {config: {neighborGateway: ipv6, peerAsn: 2}}]}`)
	if got := peering.GatewayFamilies(s); len(got) != 1 || got[0] != addr.V6 {
		t.Errorf("the families with a gateway are %v", got)
	}
	if n := peering.RouteProtocol(s); n != 186 {
		t.Errorf("the protocol is %d", n)
	}
	s.NetlinkExport = &bgpv1.NetlinkExport{RouteProtocol: 200}
	if n := peering.RouteProtocol(s); n != 200 {
		t.Errorf("the protocol is %d", n)
	}
}
