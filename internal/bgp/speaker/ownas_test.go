package speaker

import (
	"strings"
	"testing"

	"purelb.io/purelb/internal/testing/expect"
)

func TestAnExternalNeighborInTheNodesOwnASHasNoSession(t *testing.T) {
	const spec = `{global: {asn: 65000}, neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: external}}]}`
	inWorld(t, spec, nil, func(w *world) {
		w.serves(established("192.0.2.1", 65001))
		expect.Equal(t, "barred neighbors in another AS", w.barred(), "")
		if n := w.reports.last().Status.Neighbors[0]; n.PeerASN != 65001 {
			t.Errorf("the status has the peer AS %d, want 65001", n.PeerASN)
		}
		w.serves(established("192.0.2.1", 65000))
		expect.Equal(t, "barred neighbors in the node's own AS", w.barred(), "bar 192.0.2.1")
		expect.Contains(t, "events", w.reported(), "Warning NeighborInOwnAS Node node-a has ended the session with 192.0.2.1 for 5m0s: it is in AS 65000, as this node is, and its peerAsn is external")
		expect.Contains(t, "last error", w.reports.last().Status.Neighbors[0].LastError, "its peerAsn is external; it is tried again at ")
		w.edit(strings.Replace(spec, "external", "internal", 1))
		settle()
		expect.Equal(t, "barred neighbors when the configuration is right", w.barred(), "admit 192.0.2.1")
		pass(pause)
		expect.Equal(t, "barred neighbors afterwards", w.barred(), "")
	})
}
