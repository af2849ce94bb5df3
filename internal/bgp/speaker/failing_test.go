package speaker

import (
	"errors"
	"testing"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/bgp/intent"
	"purelb.io/purelb/internal/nodes/ending"
	"purelb.io/purelb/internal/testing/expect"
)

// A node that leaves withdraws its routes, whatever part of the configuration fails at that time.
func TestALeavingNodeWithdrawsDespiteFailures(t *testing.T) {
	for name, fail := range map[string]func(*world){
		"policies are refused": func(w *world) {
			w.server.change(func(s *fakeServer) { s.refusesPolicies = true })
			w.sees(func(s *intent.Snapshot) { s.Groups = []v2.ServiceGroup{namingPeers("192.0.2.1")} })
		},
		"the kernel does not answer": func(w *world) {
			w.kernel.mu.Lock()
			w.kernel.gatewayErr = errors.New("interrupted")
			w.kernel.mu.Unlock()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, `{global: {asn: 65000}, neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 65001}}, {config: {neighborGateway: ipv4, peerAsn: 65001}}]}`, func(w *world) {
				w.kernel.hold("kube-lb0", "203.0.113.1/32")
			}, func(w *world) {
				expect.Equal(t, "routes", w.server.announces(), "203.0.113.1/32")
				fail(w)
				w.mark(ending.DrainMark{Reason: "taint", Leaving: true})
				pass(2 * drainFor)
				expect.Equal(t, "routes of a node that leaves", w.server.announces(), "")
			})
		})
	}
}
