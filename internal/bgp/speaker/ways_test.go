package speaker

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/testing/expect"
)

// A session can outlive a short loss of the route to the neighbor, as of a link.
func TestALostRouteToANeighborWithdrawsNoFamily(t *testing.T) {
	router := netip.MustParseAddr("192.0.2.1")
	inWorld(t, oneNeighbor, nil, func(w *world) {
		var before peering.Egress
		w.kernel.change(func(k *fakeKernel) { before = k.egress[router]; delete(k.egress, router) })
		pass(time.Minute)
		expect.Equal(t, "sessions without the route", w.server.String(), sessions1)
		expect.Contains(t, "conditions", w.reports.conditions(), "spec.neighbors[0]: there is no route to 192.0.2.1, so the last known next hop of IPv6 routes stays in use")
		before.Addresses = before.Addresses[:1]
		w.routed(func(k *fakeKernel) { k.egress[router] = before })
		expect.Equal(t, "sessions without an address of the other family", w.server.String(), strings.TrimSuffix(sessions1, " via 2001:db8::10"))
	})
}

// The decision about the refused configuration asks for no way to the neighbor.
func TestALostRouteBesideARefusedConfigurationWithdrawsNoFamily(t *testing.T) {
	inWorld(t, oneNeighbor, nil, func(w *world) {
		w.edit(`{global: {asn: 0}}`)
		w.kernel.change(func(k *fakeKernel) { clear(k.egress) })
		pass(time.Minute)
		expect.Equal(t, "sessions without the route", w.server.String(), sessions1)
	})
}
