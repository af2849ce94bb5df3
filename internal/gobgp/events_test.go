package gobgp

import (
	"net/netip"
	"testing"

	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"purelb.io/purelb/internal/peering"
)

// TestWhatWasHeardDoesNotGrowWithoutEnd although neighbours never cease to
// announce what nobody has announced before. Our own routes wake then always.
func TestWhatWasHeardDoesNotGrowWithoutEnd(t *testing.T) {
	e := newEvents()
	woken := func() bool {
		select {
		case <-e.wake:
			return true
		default:
			return false
		}
	}
	ours := []peering.Route{{Prefix: netip.MustParsePrefix("198.51.100.1/32")}}
	for i := range 3 * maxHeard {
		prefix := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 32)
		nlri, err := bgp.NewIPAddrPrefix(prefix)
		if err != nil {
			t.Fatal(err)
		}
		if i == maxHeard {
			woken()
			if e.own(ours); woken() {
				t.Error("a route that nobody else announces wakes")
			}
		}
		e.paths([]*apiutil.Path{{Nlri: nlri}})
		if len(e.heard) > maxHeard {
			t.Fatalf("%d prefixes are remembered", len(e.heard))
		}
	}
	woken()
	if e.own(ours); !woken() {
		t.Error("a route that others may announce does not wake")
	}
	e.forget()
	woken()
	if e.own(ours); woken() {
		t.Error("a route wakes although nothing was heard of the next server")
	}
}
