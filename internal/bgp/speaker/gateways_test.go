package speaker

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/testing/expect"
)

const byGateway = `{global: {asn: 65000}, neighbors: [{config: {neighborGateway: ipv4, peerAsn: 65001}, afiSafis: [{family: ipv4-unicast}]}]}`

// defaultGateway sets the node's IPv4 default gateway. With "" the node has none.
func defaultGateway(address string) func(*fakeKernel) {
	return func(k *fakeKernel) {
		k.gateways = nil
		if address != "" {
			k.gateways = map[addr.Family]netip.Addr{addr.V4: netip.MustParseAddr(address)}
		}
	}
}

func (w *world) neighborNames() string {
	var all []string
	for _, p := range w.server.peers() {
		all = append(all, p.Name())
	}
	return strings.Join(all, " ")
}

func (w *world) configured() string {
	for _, c := range w.reports.last().Status.Conditions {
		if c.Type == "Configured" {
			return string(c.Status) + " " + c.Message
		}
	}
	return ""
}

func TestAGatewayNeighborFollowsTheDefaultRoute(t *testing.T) {
	inWorld(t, byGateway, func(w *world) { defaultGateway("192.0.2.1")(w.kernel) }, func(w *world) {
		expect.Equal(t, "neighbors at first", w.neighborNames(), "192.0.2.1")
		w.routed(defaultGateway("192.0.2.254"))
		expect.Equal(t, "neighbors after a change of the route", w.neighborNames(), "192.0.2.254")

		w.routed(defaultGateway(""))
		expect.Equal(t, "neighbors without a route", w.neighborNames(), "192.0.2.254")
		if said := w.configured(); !strings.HasPrefix(said, "False ") || !strings.Contains(said, "the last known gateway 192.0.2.254 stays the neighbor") {
			t.Errorf("the condition Configured is %s, want False with the last known gateway", said)
		}
		w.routed(defaultGateway("192.0.2.254"))
		if said := w.configured(); !strings.HasPrefix(said, "True ") {
			t.Errorf("with the route again, the condition Configured is %s", said)
		}
	})
}

func TestAnUnreadableRoutingTableChangesNoNeighbor(t *testing.T) {
	inWorld(t, byGateway, func(w *world) { defaultGateway("192.0.2.1")(w.kernel) }, func(w *world) {
		w.routed(func(k *fakeKernel) { k.gateways, k.gatewayErr = nil, errors.New("interrupted") })
		expect.Equal(t, "neighbors", w.neighborNames(), "192.0.2.1")
		if !strings.Contains(w.log.String(), "interrupted") {
			t.Error("the error is not logged")
		}
	})
}
