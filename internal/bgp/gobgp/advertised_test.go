package gobgp

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/bgp/peering"
)

// toThree is a configuration for two routers in another AS, and one in ours.
func toThree() bgpv1.BGPConfigurationSpec {
	return bgpv1.BGPConfigurationSpec{
		Global:    bgpv1.Global{ASN: ourAS},
		Neighbors: []bgpv1.Neighbor{neighborIn(routerAS, "192.0.2.2"), neighborIn(routerAS, "192.0.2.3"), neighborIn(ourAS, "192.0.2.4")},
	}
}

// advertised is a node with a group whose routes have the mark.
func advertised(draining bool, all ...peering.Advertisement) (node peering.Node, mark string) {
	mark = peering.ProfileOf("web")
	return peering.Node{Draining: draining, Restricted: []peering.Restriction{{Group: "web", Mark: mark, Advertisements: all}}}, mark
}

// Each router gets the attributes of the advertisements that name it. A router in our AS gets no
// longer path, which it would take for a loop, and a router in another AS no local preference. No
// router sees the mark.
func TestEachRouterGetsItsOwnAttributes(t *testing.T) {
	w := newWorld(t)
	two, three, four := w.frr("192.0.2.1"), w.frr("192.0.2.1"), w.inside()
	s := newServer(t)
	med, preference, longer := uint32(33), uint32(200), uint8(2)
	node, mark := advertised(
		false,
		peering.Advertisement{Peers: []string{"192.0.2.2"}, Attributes: peering.Attributes{Communities: []uint32{ourAS<<16 | 7}, LargeCommunities: []string{"64515:7:8"}}},
		peering.Advertisement{Peers: []string{"192.0.2.3", "192.0.2.4"}, Prepend: &longer},
		peering.Advertisement{Attributes: peering.Attributes{MED: &med, LocalPref: &preference}},
	)
	r := routes("198.51.100.1/32", "198.51.100.2/32")
	r[0].Attributes = peering.Attributes{Communities: []uint32{ourAS<<16 | 1}, Marks: []string{mark}}
	announce(t, s, r...)
	apply(t, s, decided(t, toThree(), node))
	const question = "show bgp ipv4 unicast 198.51.100.1/32"
	for router, want := range map[interface {
		AwaitSays(question, text string)
		Ask(question string) string
	}][]string{
		two: {"Community: 64515:7\n", "Large Community: 64515:7:8\n", "metric 33"}, three: {"64515 64515 64515\n", "Community: 64515:1\n", "metric 33"}, four: {"localpref 200", "Community: 64515:1\n", "metric 33"},
	} {
		for _, text := range want {
			router.AwaitSays(question, text)
		}
		if said := router.Ask(question); strings.Contains(said, "4294967295") {
			t.Errorf("a router sees the mark: %s", said)
		}
		if said := router.Ask("show bgp ipv4 unicast 198.51.100.2/32"); strings.Contains(said, "metric 33") || strings.Contains(said, "64515 64515") {
			t.Errorf("a route of another group has attributes: %s", said)
		}
	}

	// The advertisement ends, and so does its effect. A draining node keeps its request.
	node, _ = advertised(true, peering.Advertisement{Attributes: peering.Attributes{Communities: []uint32{ourAS<<16 | 9}, LocalPref: &preference}})
	imported := []peering.Imported{{Address: netip.MustParsePrefix("198.51.100.1/32"), Interface: "kube-lb0"}}
	announce(t, s, peering.Routes(imported, func(netip.Addr) peering.Attributes { return r[0].Attributes }, true)...)
	apply(t, s, decided(t, toThree(), node))
	for _, router := range []interface{ AwaitSays(question, text string) }{two, three, four} {
		router.AwaitSays(question, "Community: 64515:9 graceful-shutdown")
	}
	four.AwaitSays(question, "localpref 0,")
	if said := three.Ask(question); strings.Contains(said, "64515 64515") {
		t.Errorf("the path is longer without an advertisement that says so: %s", said)
	}
}

// A route has everything that a group and an advertisement can set. Longer messages than 4,096 bytes
// end the process (osrg/gobgp#2629).
func TestTheLargestAdvertisementFitsIntoAMessage(t *testing.T) {
	w := newWorld(t)
	router := w.frr("192.0.2.1")
	most, longest := ^uint32(0), uint8(10)
	full := peering.Attributes{MED: &most, LocalPref: &most, Weight: 1}
	for i := range 64 {
		full.Communities = append(full.Communities, uint32(65000<<16|i))
		full.LargeCommunities = append(full.LargeCommunities, fmt.Sprintf("65000:0:%d", i))
	}
	node, mark := advertised(true, peering.Advertisement{Attributes: full, Prepend: &longest}, peering.Advertisement{Attributes: full})
	r := routes("198.51.100.1/32", "2001:db8:f::1/128")
	for i := range r {
		r[i].Attributes = full
		r[i].Attributes.Marks = []string{mark}
	}
	s := newServer(t)
	announce(t, s, r...)
	spec := toThree()
	spec.Neighbors = spec.Neighbors[:1]
	apply(t, s, decided(t, spec, node, "2001:db8::1"))
	router.Await("198.51.100.1/32 via 192.0.2.1", "2001:db8:f::1/128 via 2001:db8::1")
	router.AwaitSays("show bgp ipv4 unicast 198.51.100.1/32", strings.TrimSuffix(strings.Repeat("64515 ", 11), " "))
}
