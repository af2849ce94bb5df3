package speaker

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"purelb.io/purelb/internal/peering"
)

// refuses prints the prefixes that the server refuses from neighbors.
func (s *fakeServer) refuses() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, set := range s.state.Sets {
		for _, p := range set.Prefixes {
			all = append(all, fmt.Sprintf("%s %d-%d", p.Prefix, p.Min, p.Max))
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func TestAddressesWithoutAPoolAreNotLearned(t *testing.T) {
	inWorld(t, oneNeighbor, func(w *world) {
		w.kernel.hold("kube-lb0", "203.0.113.7/32")
	}, func(w *world) {
		want(t, "on the interface", w.server.refuses(), "203.0.113.7/32 32-32")
		w.kernel.hold("kube-lb0", "203.0.113.8/32", "2001:db8:9::8/128")
		settle()
		want(t, "when others come", w.server.refuses(), "2001:db8:9::8/128 128-128, 203.0.113.8/32 32-32")
		w.cluster.change(func(s *Snapshot) {
			s.Services = []ServiceFacts{{Name: "a/netbox", Recorded: true, Addresses: []netip.Addr{netip.MustParseAddr("198.51.100.9")}}}
		})
		settle()
		want(t, "of an IPAM system, on another node", w.server.refuses(), "198.51.100.9/32 32-32, 2001:db8:9::8/128 128-128, 203.0.113.8/32 32-32")
		w.kernel.hold("kube-lb0")
		w.cluster.change(func(s *Snapshot) { s.Services = nil })
		settle()
		want(t, "when they have gone", w.server.refuses(), "")
	})
}

func TestAddressesOfAPoolChangeNoPolicy(t *testing.T) {
	pool := []peering.PrefixRange{{Prefix: netip.MustParsePrefix("203.0.113.0/24"), Min: 24, Max: 32}}
	for _, tt := range []struct {
		prefix string
		want   bool
	}{
		{"203.0.113.7/32", true}, {"203.0.113.0/24", true}, {"203.0.112.0/23", false}, {"203.0.114.1/32", false}, {"2001:db8::1/128", false},
	} {
		if got := peering.Covers(pool, netip.MustParsePrefix(tt.prefix)); got != tt.want {
			t.Errorf("%s: %v", tt.prefix, got)
		}
	}
}
