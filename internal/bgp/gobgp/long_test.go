package gobgp

import (
	"fmt"
	"strings"
	"testing"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/testing/bgptest"
)

// The first router sends long messages (RFC 8654), and the second one does not take them. GoBGP panics
// when it packs a route that does not fit for the second one.
func TestLongRoutesAreNotPassedOn(t *testing.T) {
	const most = 128 // ASes, including those of the router and of the node, and communities
	w := newWorld(t)
	var from strings.Builder
	for i, what := range []string{"bgp_community.add((65000, %d));", "bgp_path.prepend(%d);"} {
		for j, n := range []int{most - 2, most + 1, 1100} {
			fmt.Fprintf(&from, " route 198.51.%d.%d/32 blackhole {", 100+i, j)
			for value := range n {
				fmt.Fprintf(&from, what, value+1)
			}
			from.WriteString("};\n")
		}
	}
	w.bird("192.0.2.2", "192.0.2.1", " enable extended messages on;\n}\nprotocol static { ipv4;\n"+from.String())
	to := bgptest.BIRD(t, w.machine(), fmt.Sprintf(`
router id 192.0.2.3;
protocol bgp ours {
 local 192.0.2.3 as %d;
 neighbor 192.0.2.1 as %d;
 connect retry time 1;
 connect delay time 1;
 ipv4 { import all; export none; };
}
`, routerAS, ourAS))
	spec := bgpv1.BGPConfigurationSpec{
		Global:    bgpv1.Global{ASN: ourAS, AllowTransit: true, Families: []string{"ipv4-unicast"}},
		Neighbors: []bgpv1.Neighbor{neighborIn(birdAS, "192.0.2.2"), neighborIn(routerAS, "192.0.2.3")},
	}
	s := newServer(t)
	apply(t, s, decided(t, spec, peering.Node{}))
	neighborIs(t, s, "192.0.2.2", "heard", func(n peering.NeighborStatus) bool { return n.Received[v4] == 6 })
	to.Await("198.51.100.0/32 via 192.0.2.1", "198.51.101.0/32 via 192.0.2.1")
}

// Package peering never lets a route have so many communities.
func TestThePanicForALongRouteIsRecognized(t *testing.T) {
	w := newWorld(t)
	w.bird("192.0.2.2", "192.0.2.1")
	long := routes("198.51.100.1/32")
	for i := range 400 {
		long[0].Attributes.LargeCommunities = append(long[0].Attributes.LargeCommunities, fmt.Sprintf("65000:0:%d", i))
	}
	s := startSpeaker(t, orders{State: state(birdPeer("192.0.2.2")), Routes: long})
	_ = s.cmd.Wait()
	if trace := s.trace.String(); !Overflowed(trace) {
		t.Errorf("the trace is not recognized:\n%s", trace)
	}
}
