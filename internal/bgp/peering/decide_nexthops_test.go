package peering_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/bgp/peering"
)

// TestNextHopsPreferTheNodesOwnAddresses: the interface can also have addresses of
// Services, which may be removed. Without an own address, the first address is used.
func TestNextHopsPreferTheNodesOwnAddresses(t *testing.T) {
	spec := config(t, "{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}}]}")
	for _, tt := range []struct {
		known, there, want string
	}{
		{"2001:db8::9", "2001:db8::5 2001:db8::9", "map[IPv6:2001:db8::9]"},
		{"192.0.2.10", "192.0.2.10 2001:db8::9 2001:db8::5", "map[IPv6:2001:db8::9]"},
		{"192.0.2.10", "192.0.2.10 fe80::1 ::1", "map[]"},
	} {
		d := peering.Decide(spec, peering.Node{Name: "a", InternalIPs: ips("10.0.0.1", tt.known)}, secrets, func(netip.Addr) (peering.Egress, bool) {
			return peering.Egress{Interface: "eth0", Addresses: ips(strings.Fields(tt.there)...)}, true
		})
		if got := fmt.Sprint(d.State.Peers[0].NextHops); got != tt.want {
			t.Errorf("own address %s, interface with %s: the next hops are %q, want %q", tt.known, tt.there, got, tt.want)
		}
	}
}

func TestNoIPv4RoutesToARouterWithoutExtendedNextHop(t *testing.T) {
	const muted = "IPv4 routes are not announced"
	for _, tt := range []struct {
		name, neighbor string
		told, want     bool
	}{
		{"before its OPEN", "2001:db8:51::1", false, false},
		{"without the capability", "2001:db8:51::1", true, true},
		{"with a link-local address", "fe80::1%eth1", true, true},
		{"with an IPv4 next hop", "2001:db8::1", true, false},
		{"with a session over IPv4", "198.51.100.1", true, false},
	} {
		spec := config(t, "{neighbors: [{config: {neighborAddress: '"+tt.neighbor+"', peerAsn: 64513}}]}")
		n := node
		n.NoExtendedNextHop = map[string]bool{tt.neighbor: tt.told}
		d := peering.Decide(spec, n, secrets, egress)
		silent := slices.Contains(d.State.Peers[0].Mute, addr.V4)
		said := slices.ContainsFunc(d.Problems, func(p peering.Problem) bool { return strings.Contains(p.Message, muted) })
		if silent != tt.want || said != tt.want {
			t.Errorf("a router %s: IPv4 muted %v, want %v; problems: %v", tt.name, silent, tt.want, d.Problems)
		}
	}
}
