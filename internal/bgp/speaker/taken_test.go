package speaker

import (
	"net/netip"
	"testing"
	"time"

	"purelb.io/purelb/internal/testing/expect"
)

func TestANeighborThatAnotherProgramHasIsLeftAlone(t *testing.T) {
	router := netip.MustParseAddr("192.0.2.1")
	inWorld(t, withBFD, func(w *world) {
		w.kernel.taken = map[netip.Addr]netip.AddrPort{router: netip.MustParseAddrPort("192.0.2.10:40112")}
	}, func(w *world) {
		pass(time.Minute)
		expect.Equal(t, "sessions", w.server.String(), "asn 65000 id 192.0.2.10")
		expect.Equal(t, "BFD", w.bfd.String(), "")
		expect.Contains(t, "conditions", w.reports.conditions(), "Configured False ConfigurationInvalid: spec.neighbors[0]: another program on this node has a BGP session with 192.0.2.1 (from 192.0.2.10:40112)")
		expect.Contains(t, "events", w.reported(), "Warning SessionTaken Node node-a: spec.neighbors[0]: another program on this node")

		w.kernel.change(func(k *fakeKernel) { k.taken = nil })
		pass(takenEvery + collectPause)
		expect.Equal(t, "sessions after the other one ended", w.server.String(), sessions1)
		w.serves(established("192.0.2.1", 65001))
		expect.Contains(t, "conditions", w.reports.conditions(), "Configured True")

		// The other program has taken the session.
		w.kernel.change(func(k *fakeKernel) {
			k.taken = map[netip.Addr]netip.AddrPort{router: netip.MustParseAddrPort("192.0.2.10:40113")}
		})
		w.serves(func(s *fakeServer) { delete(s.neighbors, "192.0.2.1") })
		expect.Equal(t, "sessions after the loss", w.server.String(), "asn 65000 id 192.0.2.10")
	})
}
