package gobgp

import (
	"fmt"
	"strings"
	"testing"

	"purelb.io/purelb/internal/bgp/peering"
)

// Each refusal has a reason in words, which goes when it is no longer true.
func TestTheReasonOfARefusalIsInWords(t *testing.T) {
	w := newWorld(t)
	router := w.frr("192.0.2.1")
	s := newServer(t)
	says := func(what, text string) {
		t.Helper()
		neighborIs(t, s, "192.0.2.2", what, func(n peering.NeighborStatus) bool {
			return n.State != peering.Established && strings.Contains(n.LastError, text)
		})
	}
	set := func(line string) { router.Ask(fmt.Sprintf("configure terminal\nrouter bgp %d\n%s", routerAS, line)) }
	set("neighbor 192.0.2.1 remote-as 65099")
	apply(t, s, state(peer("192.0.2.2")))
	says("refused, because the router expects another AS", "the router refused this node: it expects another AS number")

	set(fmt.Sprintf("neighbor 192.0.2.1 remote-as %d", ourAS))
	apply(t, s, state(inAS(peer("192.0.2.2"), 65098)))
	says("refused, because the router is in another AS", "the router is in another AS than peerAsn says")

	set("no neighbor 192.0.2.1")
	apply(t, s, state(peer("192.0.2.2")))
	for _, n := range neighbors(t, s) {
		if strings.Contains(n.LastError, "peerAsn") {
			t.Errorf("the reason %q is of the configuration before", n.LastError)
		}
	}
}
