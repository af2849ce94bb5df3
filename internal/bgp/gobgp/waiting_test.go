package gobgp

import (
	"log/slog"
	"net/netip"
	"testing"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/bgp/peering"
)

func breakServer(t testing.TB) *Server {
	s := New(slog.New(slog.DiscardHandler))
	t.Cleanup(func() { _ = s.Stop(t.Context(), false) })
	return s
}

// A route waits for the policy of its next group. The policies have no statement about its mark any more.
func TestARouteDoesNotWaitWithoutAStatementAboutItsMark(t *testing.T) {
	spec := bgpv1.BGPConfigurationSpec{Global: bgpv1.Global{ASN: 65000}}
	a, b := peering.MarkOf("a"), peering.MarkOf("b")
	s := breakServer(t)
	one := routes("198.51.100.1/32")
	one[0].Attributes.Marks = []string{a}
	first := decided(t, spec, peering.Node{Restricted: []peering.Restriction{{Group: "a", Mark: a, Peers: []string{"192.0.2.2"}}}})
	first.Routes = one
	apply(t, s, first)
	second := decided(t, spec, peering.Node{Restricted: []peering.Restriction{{Group: "b", Mark: b, Peers: []string{"192.0.2.2"}}}})
	second.Routes, second.Waiting = []peering.Route{}, []netip.Addr{netip.MustParseAddr("198.51.100.1")}
	apply(t, s, second)
	for key, r := range s.routes {
		t.Errorf("%v stays with the marks %v, and no statement is about them", key, r.Attributes.Marks)
	}
}
