package speaker

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/internal/bgp/intent"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/testing/expect"
)

// refuses prints the prefixes that the server refuses from neighbors.
func (s *fakeServer) refuses() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, p := range s.state.Own {
		all = append(all, fmt.Sprintf("%s %d-%d", p.Prefix, p.Min, p.Max))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func TestAddressesWithoutAPoolAreNotLearned(t *testing.T) {
	const learns = `{global: {asn: 65000}, neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 65001}}], netlinkExport: {enabled: true, rules: [{name: all}]}}`
	inWorld(t, learns, func(w *world) {
		w.kernel.hold("kube-lb0", "203.0.113.7/32")
	}, func(w *world) {
		expect.Equal(t, "refused prefixes of the interface", w.server.refuses(), "203.0.113.7/32 32-32")
		w.kernel.hold("kube-lb0", "203.0.113.8/32", "2001:db8:9::8/128")
		settle()
		expect.Equal(t, "refused prefixes of other addresses", w.server.refuses(), "2001:db8:9::8/128 128-128, 203.0.113.8/32 32-32")
		w.sees(func(s *intent.Snapshot) {
			s.Services = []intent.ServiceFacts{{Name: "a/netbox", Recorded: true, Addresses: []netip.Addr{netip.MustParseAddr("198.51.100.9")}}}
		})
		expect.Equal(t, "refused prefixes with an address of an IPAM system on another node", w.server.refuses(), "198.51.100.9/32 32-32, 2001:db8:9::8/128 128-128, 203.0.113.8/32 32-32")
		w.kernel.hold("kube-lb0")
		w.sees(func(s *intent.Snapshot) { s.Services = nil })
		expect.Equal(t, "refused prefixes without addresses", w.server.refuses(), "")
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
		if got := peering.CoverageOf(pool).Has(netip.MustParsePrefix(tt.prefix)); got != tt.want {
			t.Errorf("the Coverage says that %s is in the pool: %v, want %v", tt.prefix, got, tt.want)
		}
	}
}

// In quadratic time this takes more than ten seconds.
func TestAddressesOfAnIPAMSystemAreReadInLinearTime(t *testing.T) {
	const addresses, limit = 50_000, 3 * time.Second
	var snapshot intent.Snapshot
	for i := range addresses {
		ip := netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)})
		snapshot.Services = append(snapshot.Services, intent.ServiceFacts{Name: fmt.Sprint("a/", i), Recorded: true, Addresses: []netip.Addr{ip}})
	}
	began := time.Now()
	own := intent.Read(snapshot, "purelb", intent.Input{}).Own
	s := New(Options{})
	for _, o := range own {
		s.addMember(peering.Imported{Address: o.Prefix, Interface: "kube-lb0"})
	}
	if others := s.heldOutside(own); len(own) != addresses || len(others) > 0 {
		t.Errorf("%d prefixes of pools and %d others", len(own), len(others))
	}
	if took := time.Since(began); took > limit {
		t.Errorf("reading the addresses takes %v, want at most %v", took, limit)
	}
}
