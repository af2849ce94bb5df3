package backends_test

import (
	"net/netip"
	"testing"
	"time"

	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/testing/netboxtest"
)

// An operator enlarges a full prefix in NetBox, as the refusal says.
func TestLargerPrefixServesWaitingServices(t *testing.T) {
	in(t, func(w *world) {
		s := w.servers["netbox.example"]
		id := s.AddBlock(netboxtest.Block{Prefix: netip.MustParsePrefix("198.51.100.0/30")})
		group := on("netbox.example", "lb", "198.51.100.0/30")
		group.NetBox.Parents = []config.NetBoxParent{{ID: id}}
		defer w.start(group)()
		w.ledger.want("lb", v4(4)...)
		after(time.Minute)
		w.holds("lb", "web-0/v4=198.51.100.1 web-1/v4=198.51.100.2 waits:2")
		s.ChangePrefix(id, func(b *netboxtest.Block) { b.Prefix = netip.MustParsePrefix("198.51.100.0/29") })
		w.ledger.want("lb", v4(4)[2:]...)
		after(time.Minute)
		w.holds("lb", "web-0/v4=198.51.100.1 web-1/v4=198.51.100.2 web-2/v4=198.51.100.3 web-3/v4=198.51.100.4")
		w.keeps("netbox.example", "web-0/v4=198.51.100.1 web-1/v4=198.51.100.2 web-2/v4=198.51.100.3 web-3/v4=198.51.100.4")
	})
}
