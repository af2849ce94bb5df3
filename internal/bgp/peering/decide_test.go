package peering_test

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/bgp/peering"
)

func TestAnASNumberIsEnough(t *testing.T) {
	d := decide(t, "{global: {asn: 64512}}")
	if diff := cmp.Diff(plain, print(d)); diff != "" {
		t.Errorf("the result differs (-want +got):\n%s", diff)
	}
	if !d.StatusEnabled || d.Heartbeat != time.Minute {
		t.Errorf("the decision is %+v, want one without problems", d)
	}
}

// TestTheOrderInTheSpecHasNoEffect is about neighbors with different addresses.
func TestTheOrderInTheSpecHasNoEffect(t *testing.T) {
	const a, b = "{config: {neighborAddress: 192.0.2.1, peerAsn: 1}}", "{config: {neighborAddress: '2001:db8::1', peerAsn: 2}}"
	one := decide(t, "{neighbors: ["+a+", "+b+"]}")
	other := decide(t, "{neighbors: ["+b+", "+a+"]}")
	if diff := cmp.Diff(print(one), print(other)); diff != "" {
		t.Errorf("the result differs (-want +got):\n%s", diff)
	}
}

// In a pool of 65,534 router IDs, at least two of 300 nodes share one in about half of all
// clusters.
func TestNodesWithoutIPv4RarelyShareARouterID(t *testing.T) {
	shared := 0
	for cluster := range 100 {
		seen := map[netip.Addr]bool{}
		for node := range 300 {
			name := fmt.Sprintf("worker-%d-%x", cluster, sha256.Sum256([]byte(fmt.Sprint(node))))[:20]
			d := peering.Decide(config(t, "{global: {asn: 64512}}"), peering.Node{Name: name}, secrets, egress)
			if id := d.State.Global.RouterID; seen[id] {
				shared++
			} else {
				seen[id] = true
			}
		}
	}
	if shared > 2 {
		t.Errorf("in 100 clusters of 300 nodes, %d nodes have the router ID of another", shared)
	}
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
