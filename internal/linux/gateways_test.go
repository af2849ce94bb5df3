package linux

import (
	"fmt"
	"testing"
)

func TestObserveGateways(t *testing.T) {
	const links = `link add eth0 type ifb
		link add eth1 type ifb
		link set eth0 up
		link set eth1 up
		addr add 192.0.2.1/24 dev eth0
		addr add 198.51.100.1/24 dev eth1
		addr add fd00:1::1/64 dev eth0 nodad
		addr add fd00:2::1/64 dev eth1 nodad
		`
	for _, tt := range []struct{ name, setup, want string }{
		{"without a default route", "route add 203.0.113.0/24 via 192.0.2.254", "[]"},
		{"of each family", "route add default via 192.0.2.254\nroute add default via fd00:1::fe", "[192.0.2.254 fd00:1::fe]"},
		{"of every metric", "route add default via 192.0.2.254 metric 10\nroute add default via 198.51.100.254 metric 20\n" +
			"-6 route add default via fd00:1::fe metric 10\n-6 route add default via fd00:2::fe metric 20",
			"[192.0.2.254 198.51.100.254 fd00:1::fe fd00:2::fe]"},
		{"of all next hops", "route add default nexthop via 192.0.2.254 dev eth0 nexthop via 198.51.100.254 dev eth1\n" +
			"-6 route add default nexthop via fd00:1::fe dev eth0 nexthop via fd00:2::fe dev eth1",
			"[192.0.2.254 198.51.100.254 fd00:1::fe fd00:2::fe]"},
		{"of next hop objects", "nexthop add id 1 via 192.0.2.254 dev eth0\n-6 nexthop add id 2 via fd00:1::fe dev eth0\n" +
			"route add default nhid 1\n-6 route add default nhid 2", "[192.0.2.254 fd00:1::fe]"},
		{"of the other family", "route add default via inet6 fd00:1::fe dev eth0", "[fd00:1::fe]"},
		{"each once", "route add default via 192.0.2.254 metric 10\nroute add default via 192.0.2.254 metric 20", "[192.0.2.254]"},
		{"of other tables", "route add default via 192.0.2.254 table 7\nroute add default via 198.51.100.254 table 1000\n" +
			"-6 route add default via fd00:1::fe table 7\n-6 route add default via fd00:2::fe table 1000",
			"[192.0.2.254 198.51.100.254 fd00:1::fe fd00:2::fe]"},
		{"not link-local", "-6 route add default via fe80::1 dev eth0", "[]"},
		{"not of a link alone", "route add default dev eth0\n-6 route add default dev eth1", "[]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			newWorld(t)
			s := newStack(t)
			ip(t, links+tt.setup)
			equal(t, "gateways", fmt.Sprint(observe(t, s).Gateways), tt.want)
		})
	}
}
