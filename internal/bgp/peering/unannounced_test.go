package peering_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/testing/expect"
)

// A node is healthy only if a router has routes of each family that has addresses.
func TestAddressesThatNoRouterHas(t *testing.T) {
	takes := func(address string, families ...addr.Family) peering.NeighborStatus {
		return but(neighbor(address, peering.Established), func(n *peering.NeighborStatus) {
			n.Agreed, n.Sent = families, map[addr.Family]uint32{}
			for _, f := range families {
				n.Sent[f] = 2
			}
		})
	}
	silent := func(n *peering.NeighborStatus) { n.Sent = nil }
	for _, tt := range []struct {
		name, spec string
		neighbors  statuses
		change     func(*peering.Report) // or nil
		want       string
	}{
		{"each family has a router", two, statuses{takes("192.0.2.1", addr.V4), takes("192.0.2.2", addr.V6)}, nil, ""},
		{"no router has agreed to IPv6", two, statuses{takes("192.0.2.1", addr.V4), takes("192.0.2.2", addr.V4)}, nil,
			"IPv6: 1 addresses are announced to no neighbor: 192.0.2.1 has not agreed to ipv6-unicast: activate the family on the router, " +
				"192.0.2.2 has not agreed to ipv6-unicast: activate the family on the router"},
		{"the router has agreed, and gets nothing", two, statuses{but(takes("192.0.2.1", addr.V4, addr.V6), silent)}, nil,
			"IPv4: 2 addresses are announced to no neighbor: spec.bgp of their ServiceGroups keeps them from 192.0.2.1; " +
				"IPv6: 1 addresses are announced to no neighbor: spec.bgp of their ServiceGroups keeps them from 192.0.2.1"},
		{"the session is new", two, statuses{but(takes("192.0.2.1", addr.V4, addr.V6), func(n *peering.NeighborStatus) { n.Sent, n.UpSince = nil, noon.Add(-9*time.Second) })}, nil, ""},
		{"the family is new", two, statuses{takes("192.0.2.1", addr.V4)}, func(r *peering.Report) { r.Since[addr.V6] = noon.Add(-9 * time.Second) }, ""},
		{"the configuration leaves the family out", "{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}, afiSafis: [{family: ipv4-unicast}]}]}",
			statuses{takes("192.0.2.1", addr.V4)}, nil, "IPv6: 1 addresses are announced to no neighbor: the afiSafis of 192.0.2.1 lack ipv6-unicast"},
		{"there is no next hop", two, statuses{but(takes("192.0.2.1", addr.V4, addr.V6), func(n *peering.NeighborStatus) { n.Sent[addr.V6] = 0 })},
			func(r *peering.Report) { r.Decision.State.Peers[0].Mute = []addr.Family{addr.V6} },
			"IPv6: 1 addresses are announced to no neighbor: there is no next hop of the family for 192.0.2.1"},
		{"the peers of a group name no neighbor of the node", two, statuses{takes("192.0.2.1", addr.V4, addr.V6)}, func(r *peering.Report) {
			r.Decision.Unnamed = []string{"purelb/far"}
			r.Local[1].Attributes.Marks = []string{peering.MarkOf("purelb/near"), peering.MarkOf("purelb/far")}
		}, "IPv4: 1 addresses are announced to no neighbor: spec.bgp.peers of ServiceGroup purelb/far names none of this node: " +
			"name one, or let spec.bgp.nodeSelector leave out the node"},
		{"the peers of a group name a neighbor of the node", two, statuses{takes("192.0.2.1", addr.V4, addr.V6)}, func(r *peering.Report) {
			r.Local[1].Attributes.Marks = []string{peering.MarkOf("purelb/far")}
		}, ""},
		{"there is no session, which is said otherwise", two, nil, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := report(t, tt.spec, tt.neighbors...)
			r.Since = map[addr.Family]time.Time{addr.V4: noon.Add(-time.Minute), addr.V6: noon.Add(-time.Minute)}
			for _, p := range []string{"198.51.100.1/32", "198.51.100.2/32", "2001:db8::1/128"} {
				prefix := netip.MustParsePrefix(p)
				r.Imported = append(r.Imported, peering.Imported{Address: prefix})
				r.Local = append(r.Local, peering.Route{Prefix: prefix})
			}
			if tt.change != nil {
				tt.change(&r)
			}
			var said []string
			for _, part := range strings.Split(peering.NodeStatus(r, bgpv1.BGPNodeStatusStatus{}).Conditions[0].Message, "; ") {
				if strings.Contains(part, "announced to no neighbor") {
					said = append(said, part)
				}
			}
			expect.Equal(t, "complaints", strings.Join(said, "; "), tt.want)
		})
	}
}
