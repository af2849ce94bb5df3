package peering_test

import (
	"net/netip"
	"strings"
	"testing"

	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/testing/expect"
)

func TestANeighborBehindARouterNeedsMultihop(t *testing.T) {
	behind := func(netip.Addr) (peering.Egress, bool) {
		return peering.Egress{Interface: "eth0", Addresses: ips("192.0.2.10", "2001:db8::10"), Gateway: netip.MustParseAddr("10.0.0.2")}, true
	}
	const said = "192.0.2.1 is in another AS and behind the router 10.0.0.2, and a session with it may have no router in between: set ebgpMultihop"
	for _, tt := range []struct{ name, neighbor, want string }{
		{"in another AS", "{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}}", said},
		{"with ebgpMultihop", "{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}, ebgpMultihop: {enabled: true}}", ""},
		{"in the node's own AS", "{config: {neighborAddress: 192.0.2.1, peerAsn: internal}}", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := peering.Decide(config(t, "{neighbors: ["+tt.neighbor+"]}"), node, secrets, behind)
			var all []string
			for _, p := range d.Problems {
				all = append(all, p.Message)
			}
			expect.Equal(t, "problems", strings.Join(all, "; "), tt.want)
		})
	}
}
