package linux

import (
	"net/netip"
	"testing"

	"purelb.io/purelb/internal/announce"
)

// A question that each node repeats for ever must not reach every machine of the segment.
func TestAKnownMachineIsAskedAlone(t *testing.T) {
	p := announce.Probing{
		Requests: true,
		Sources:  []announce.Source{{Addr: netip.MustParseAddr("192.0.2.1"), Network: netip.MustParsePrefix("192.0.2.0/24")}, {Addr: netip.MustParseAddr("2001:db8::1"), Network: netip.MustParsePrefix("2001:db8::/64")}},
		Known:    map[netip.Addr][6]byte{netip.MustParseAddr("192.0.2.2"): {2, 0, 0, 0, 0, 2}, netip.MustParseAddr("2001:db8::2"): {2, 0, 0, 0, 0, 2}},
	}
	for ip, alone := range map[string]bool{"192.0.2.2": true, "192.0.2.3": false, "2001:db8::2": true, "2001:db8::3": false} {
		for _, q := range questions(link{}, []netip.Addr{netip.MustParseAddr(ip)}, p) {
			if got := [6]byte(q.to[:6]) == [6]byte{2, 0, 0, 0, 0, 2}; got != alone {
				t.Errorf("the question about %s goes to %x", ip, q.to)
			}
		}
	}
}
