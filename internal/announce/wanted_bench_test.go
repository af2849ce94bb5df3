package announce

import (
	"fmt"
	"net/netip"
	"testing"
)

// BenchmarkDecide is one decision on ten thousand Services, half of them local,
// among a thousand nodes.
func BenchmarkDecide(b *testing.B) {
	s := theSituation()
	s.Peers.Members = nil
	for i := range 1000 {
		s.Peers.Members = append(s.Peers.Members, member(fmt.Sprintf("node-%d", i), fmt.Sprintf("10.%d.%d.0/24", i/250, i%250)))
	}
	s.Peers.Members = append(s.Peers.Members, member("node-a", segment...))
	for i := range 10000 {
		ip := netip.AddrFrom4([4]byte{172, 16, 0, byte(i)})
		if i%2 == 0 {
			ip = netip.MustParseAddr(fmt.Sprintf("fd00::%x", i))
		}
		s.Services = append(s.Services, Service{Key: fmt.Sprintf("default/s%05d", i), Addresses: []netip.Addr{ip}})
	}
	b.ReportAllocs()
	for b.Loop() {
		plan := Decide(s)
		Diff(plan.Wanted, s.Node, nil)
	}
}
