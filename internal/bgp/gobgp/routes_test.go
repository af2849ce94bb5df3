package gobgp

import (
	"log/slog"
	"net/netip"
	"testing"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/testing/bgptest"
	"purelb.io/purelb/internal/testing/expect"
)

func TestRoutersInstallAndRemoveRoutesOfBothFamilies(t *testing.T) {
	tests := []struct {
		name   string
		router func(*world) *bgptest.Router
		peer   peering.Peer
	}{
		{"FRR over IPv4", func(w *world) *bgptest.Router { return w.frr("192.0.2.1") }, peer("192.0.2.2")},
		{"FRR over IPv6", func(w *world) *bgptest.Router { return w.frr("2001:db8::1") }, peer("2001:db8::2")},
		{"BIRD over IPv4", func(w *world) *bgptest.Router { return w.bird("192.0.2.2", "192.0.2.1") }, birdPeer("192.0.2.2")},
		{"BIRD over IPv6", func(w *world) *bgptest.Router { return w.bird("2001:db8::2", "2001:db8::1") }, birdPeer("2001:db8::2")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			router := tt.router(w)
			s := announcing(t, "198.51.100.1/32", "2001:db8:f::1/128")
			apply(t, s, state(tt.peer))
			router.Await("198.51.100.1/32 via 192.0.2.1", "2001:db8:f::1/128 via 2001:db8::1")

			announce(t, s, routes("198.51.100.1/32", "203.0.113.0/24")...)
			router.Await("198.51.100.1/32 via 192.0.2.1", "203.0.113.0/24 via 192.0.2.1")

			announce(t, s)
			router.Await()
		})
	}
}

func TestARouterWithRFC8950NeedsNoIPv4NextHop(t *testing.T) {
	w := newWorld(t)
	router := w.frr("2001:db8::1", "neighbor 2001:db8::1 capability extended-nexthop")
	s := newServer(t)
	p := peer("2001:db8::2")
	p.NextHops = nil
	announce(t, s, routes("198.51.100.1/32")...)
	apply(t, s, state(p))
	router.Await("198.51.100.1/32 via 2001:db8::1")
}

func TestAttributesArriveAndChangeInPlace(t *testing.T) {
	w := newWorld(t)
	frr := w.frr("192.0.2.1")
	bird := w.bird("192.0.2.3", "192.0.2.1")
	s := newServer(t)
	med := uint32(77)
	r := routes("198.51.100.1/32", "2001:db8:f::1/128")
	for i := range r {
		r[i].Attributes = peering.Attributes{
			Communities: []uint32{64515<<16 | 100, 64515<<16 | 200}, LargeCommunities: []string{"64515:1:2"}, MED: &med,
		}
	}
	announce(t, s, r...)
	apply(t, s, state(peer("192.0.2.2"), birdPeer("192.0.2.3")))
	frr.Await("198.51.100.1/32 via 192.0.2.1", "2001:db8:f::1/128 via 2001:db8::1")
	bird.Await("198.51.100.1/32 via 192.0.2.1", "2001:db8:f::1/128 via 2001:db8::1")
	for _, question := range []string{"show bgp ipv4 unicast 198.51.100.1/32", "show bgp ipv6 unicast 2001:db8:f::1/128"} {
		frr.AwaitSays(question, "metric 77")
		frr.AwaitSays(question, "Community: 64515:100 64515:200")
		frr.AwaitSays(question, "Large Community: 64515:1:2")
	}
	for _, question := range []string{"show route 198.51.100.1/32 all", "show route 2001:db8:f::1/128 all"} {
		bird.AwaitSays(question, "BGP.med: 77")
		bird.AwaitSays(question, "BGP.community: (64515,100) (64515,200)")
		bird.AwaitSays(question, "BGP.large_community: (64515, 1, 2)")
	}

	monitor := bird.Monitor()
	r[0].Attributes.Communities = []uint32{peering.GracefulShutdown}
	expect.NoError(t, s.Change(t.Context(), r[:1], nil))
	bird.AwaitSays("show route 198.51.100.1/32 all", "(65535,0)")
	frr.AwaitSays("show bgp ipv4 unicast 198.51.100.1/32", "graceful-shutdown")
	for _, e := range monitor.Events(t) {
		if e[:3] != "add" {
			t.Errorf("a change of attributes withdrew a route: %s", e)
		}
	}
}

func TestTenThousandRoutesComeAndGo(t *testing.T) {
	w := newWorld(t)
	router := w.frr("192.0.2.1")
	s := newServer(t)
	apply(t, s, state(peer("192.0.2.2")))
	established(t, s, "192.0.2.2")
	many := make([]peering.Route, 10_000)
	for i := range many {
		many[i].Prefix = netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)}), 32)
	}
	announce(t, s, many...)
	router.AwaitCount(len(many))
	if sent := established(t, s, "192.0.2.2").Sent[v4]; int(sent) != len(many) {
		t.Errorf("%d routes are sent, want %d", sent, len(many))
	}
	announce(t, s, many[:1]...)
	router.Await("198.18.0.0/32 via 192.0.2.1")
}

func TestAFailedReplacementKeepsTheOldRoute(t *testing.T) {
	newWorld(t)
	s := New(slog.New(slog.DiscardHandler))
	apply(t, s, state())
	old := routes("198.51.100.1/32")
	announce(t, s, old...)
	expect.NoError(t, s.engine.bgp.StopBgp(t.Context(), &api.StopBgpRequest{}))
	other := routes("198.51.100.1/32", "198.51.100.2/32")
	other[0].Attributes.Communities = []uint32{1}
	if err := s.Announce(t.Context(), other); err == nil {
		t.Fatal("a stopped server accepts routes")
	}
	if got := s.routes[old[0].Prefix]; len(s.routes) != 1 || len(got.Attributes.Communities) > 0 {
		t.Errorf("the routes are %v, want the old one", s.routes)
	}
}

// GoBGP appends the large communities of a policy to those of the route. With spare capacity, the policies
// of two neighbors write to the same element, and a neighbor can get the community of the other one.
func TestPoliciesOfNeighborsDoNotShareLargeCommunities(t *testing.T) {
	a := peering.Attributes{LargeCommunities: []string{"65000:1:1", "65000:1:2", "65000:1:3", "65000:1:4"}, Marks: []string{"65000:1:5"}}
	attrs, err := attributesOf(a, ourAS, bgp.RF_IPv4_UC, nil)
	expect.NoError(t, err)
	for _, one := range attrs {
		if large, is := one.(*bgp.PathAttributeLargeCommunities); is && len(large.Values) == 5 && cap(large.Values) == 5 {
			return
		}
	}
	t.Errorf("the attributes are %v, want one with five large communities and no spare capacity", attrs)
}
