package routing

import (
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	families "purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/testing/expect"
)

// TestTheDefaultGateway adds routes one after another, and reads the gateways each time.
func TestTheDefaultGateway(t *testing.T) {
	t.Parallel()
	s, other := newSpace(t), newSpace(t)
	s.connect(t, other, "eth0", "eth0")
	s.connect(t, other, "eth1", "eth1")
	s.linkLocal(t, "eth0")
	s.linkLocal(t, "eth1")
	s.IP(`addr add 192.0.2.10/24 dev eth0
		addr add 198.51.100.10/24 dev eth1
		addr add 2001:db8::10/64 dev eth0 nodad`)
	k := s.kernel(t)
	for _, step := range []struct{ name, ip, v4, v6 string }{
		{"none", "", "none", "none"},
		{"a route in another table", "route add default via 192.0.2.9 table 100", "none", "none"},
		{"a route to half of the addresses", "route add 0.0.0.0/1 via 192.0.2.9", "none", "none"},
		{"a route without a next hop", "route add default dev eth1 metric 5", "none", "none"},
		{"an unreachable route", "route add unreachable default metric 6", "none", "none"},
		{"a route of this program", "route add default via 192.0.2.8 proto 186 metric 7", "none", "none"},
		{"a default route", "route add default via 192.0.2.1 metric 200", "192.0.2.1", "none"},
		{"a default route with a lower metric", "route add default via 198.51.100.1 metric 100", "198.51.100.1", "none"},
		{"a default route with two next hops", "route add default metric 50 nexthop via 198.51.100.7 nexthop via 192.0.2.7", "192.0.2.7", "none"},
		{"an IPv4 route with an IPv6 next hop", "-4 route add default via inet6 fe80::7 dev eth1 metric 40", "fe80::7%eth1", "none"},
		{"an IPv6 route with a link-local next hop", "-6 route add default via fe80::2 dev eth0 metric 200", "fe80::7%eth1", "fe80::2%eth0"},
		{"an IPv6 route with a lower metric", "-6 route add default via 2001:db8::1 metric 100", "fe80::7%eth1", "2001:db8::1"},
		{"without that route", "-6 route del default via 2001:db8::1", "fe80::7%eth1", "fe80::2%eth0"},
	} {
		if step.ip != "" {
			s.IP(step.ip)
		}
		for f, want := range map[families.Family]string{families.V4: step.v4, families.V6: step.v6} {
			got, ok, err := k.Gateway(t.Context(), f, 186)
			if err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
			if text := (map[bool]string{true: got.String(), false: "none"})[ok]; text != want {
				t.Errorf("%s: the %v gateway is %s, want %s", step.name, f, text, want)
			}
		}
	}
}

// TestGatewaysFollowTheRouterPreference reads messages of the kernel about routes of Router
// Advertisements.
func TestGatewaysFollowTheRouterPreference(t *testing.T) {
	var routes []route
	for _, a := range []struct {
		gateway    string
		preference byte
	}{{"fe80::1", 3}, {"fe80::2", 0}, {"fe80::4", 1}, {"fe80::3", 1}} {
		req := route{place: place{prefix: netip.MustParsePrefix("::/0"), table: unix.RT_TABLE_MAIN, metric: 1024}, protocol: unix.RTPROT_RA, kind: unix.RTN_UNICAST,
			hops: []hop{{netip.MustParseAddr(a.gateway), 2}}}.request(unix.RTM_NEWROUTE, 0)
		req.Add(unix.RTA_PREF, []byte{a.preference})
		r, err := parseRoute(req.AppendTo(nil, 1)[unix.SizeofNlMsghdr:])
		expect.NoError(t, err)
		routes = append(routes, r)
	}
	all := gateways(routes, 186)
	slices.SortFunc(all, compareGateways)
	var order string
	for _, g := range all {
		order += g.gateway.String() + " "
	}
	if want := "fe80::3 fe80::4 fe80::2 fe80::1 "; order != want {
		t.Errorf("the order of the gateways is %s, want %s", order, want)
	}
}
