package gobgp

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/testing/bgptest"
)

func TestOptionsThatBothSidesMustAgreeOn(t *testing.T) {
	tests := []struct {
		name   string
		us     string // our address in the configuration of the router
		lines  []string
		change func(*peering.Peer)
		says   string // a part of the router's "show bgp neighbors"
	}{
		{
			"TTL security", "192.0.2.1", []string{" neighbor 192.0.2.1 ttl-security hops 1"},
			func(p *peering.Peer) { p.TTLSecurity = 255 }, "External BGP neighbor may be up to 1 hops away",
		},
		{
			"multihop from another address", "203.0.113.1", []string{" neighbor 203.0.113.1 ebgp-multihop 7"},
			func(p *peering.Peer) { p.Multihop, p.LocalAddress = 7, netip.MustParseAddr("203.0.113.1") }, "may be up to 7 hops away",
		},
		{
			"passive", "192.0.2.1", nil,
			func(p *peering.Peer) { p.Passive = true }, "Foreign port: 179",
		},
		{
			"active with a passive router", "192.0.2.1", []string{" neighbor 192.0.2.1 passive"},
			func(*peering.Peer) {}, "Local port: 179",
		},
		{
			"another AS than that of the node", "192.0.2.1", []string{" neighbor 192.0.2.1 remote-as 64600"},
			func(p *peering.Peer) { p.LocalASN = 64600 }, "remote AS 64600",
		},
		{
			"timers", "192.0.2.1", []string{" neighbor 192.0.2.1 timers 30 90"},
			func(p *peering.Peer) { p.Timers.Hold, p.Timers.Keepalive = 24e9, 8e9 }, "Hold time is 24 seconds, keepalive interval is 8 seconds",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			bgptest.Here(t).IP("address add 203.0.113.1/32 dev eth0")
			router := w.frr(tt.us, tt.lines...)
			router.IP("route add 203.0.113.1/32 via 192.0.2.1")
			s := announcing(t, "198.51.100.1/32")
			p := peer("192.0.2.2")
			tt.change(&p)
			apply(t, s, state(p))
			router.Await("198.51.100.1/32 via 192.0.2.1")
			router.AwaitSays("show bgp neighbors "+tt.us, tt.says)
		})
	}
}

func TestAnUnnumberedNeighborGetsBothFamilies(t *testing.T) {
	w := newWorld(t)
	near := linkLocal(bgptest.Here(t))
	n := w.machine()
	router := bgptest.BIRD(t, n, fmt.Sprintf(`
router id 192.0.2.2;
protocol bgp ours {
 local as %d;
 neighbor %s%%eth0 as %d;
 connect delay time 1;
 ipv4 { extended next hop on; import all; export none; };
 ipv6 { import all; export none; };
}
`, routerAS, near, ourAS))
	far := linkLocal(n)
	s := announcing(t, "198.51.100.1/32", "2001:db8:f::1/128")
	apply(t, s, state(unnumbered(peer("192.0.2.2"), far)))
	router.Await("198.51.100.1/32 via "+near, "2001:db8:f::1/128 via "+near)
	if got := established(t, s, far+"%eth0"); got.Interface != "eth0" {
		t.Errorf("the neighbor is %+v", got)
	}
	apply(t, s, state())
	router.Await()
}

// unnumbered returns p as the neighbor with a link-local address on eth0.
func unnumbered(p peering.Peer, linkLocal string) peering.Peer {
	p.Address, p.Interface, p.NextHops = netip.MustParseAddr(linkLocal+"%eth0"), "eth0", nil
	return p
}

// linkLocal returns the link-local address of eth0.
func linkLocal(n *bgptest.Namespace) string {
	address, _, _ := strings.Cut(strings.Fields(n.IP("-6 -o address show scope link dev eth0"))[3], "/")
	return address
}
