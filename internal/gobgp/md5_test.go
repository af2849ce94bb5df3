package gobgp

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/internal/peering"
)

// TestNoNeighborWithAPasswordThatTheKernelRefuses depends on a log message of GoBGP:
// GoBGP reports only there that the kernel refuses a key. A change of that message would
// allow sessions without MD5.
func TestNoNeighborWithAPasswordThatTheKernelRefuses(t *testing.T) {
	// The kernel has no interface of this name, so it refuses the key.
	const gone = "gone0"
	p := peer("192.0.2.2")
	p.Device, p.Password, p.Passive = gone, "secret", true
	group := peering.Group{Name: "dynamic", Options: options(), Path: "spec.peerGroups[0]"}
	group.Device, group.Password = gone, "secret"
	dynamic := state()
	dynamic.Groups = []peering.Group{group}
	dynamic.Dynamic = []peering.Dynamic{{Prefix: netip.MustParsePrefix("192.0.2.0/24"), Group: "dynamic", Path: "spec.dynamicNeighbors[0]"}}
	for name, wanted := range map[string]peering.State{"a neighbor": state(p), "a dynamic neighbor": dynamic} {
		t.Run(name, func(t *testing.T) {
			newWorld(t)
			s := newServer(t)
			problems := tryApply(t, s, wanted)
			if len(problems) != 1 || !strings.Contains(problems[0].Message, "the kernel does not take the password: ") {
				t.Errorf("the problems are %v, want one about the password", problems)
			}
			if there := neighbors(t, s); len(there) > 0 || len(s.found.dynamic) > 0 {
				t.Errorf("sessions are possible without the password: %v, %v", there, s.found.dynamic)
			}
		})
	}
}

// TestAPassiveNeighborNeedsThePasswordOfTheNetworkAroundIt proves what peering reports about such a
// neighbor: the kernel wants the password of the dynamic neighbors from it too.
func TestAPassiveNeighborNeedsThePasswordOfTheNetworkAroundIt(t *testing.T) {
	w := newWorld(t)
	frr := w.frr("192.0.2.1")
	s := newServer(t)
	announce(t, s, routes("198.51.100.1/32")...)
	p := peer("192.0.2.2")
	p.Passive = true
	wanted := state(p)
	group := peering.Group{Name: "dynamic", Options: options(), Path: "spec.peerGroups[0]"}
	group.Password = "secret"
	wanted.Groups = []peering.Group{group}
	wanted.Dynamic = []peering.Dynamic{{Prefix: netip.MustParsePrefix("192.0.2.0/24"), Group: "dynamic", Path: "spec.dynamicNeighbors[0]"}}
	apply(t, s, wanted)
	time.Sleep(4 * time.Second) // time for a session that must not begin
	frr.Await()

	// Not passive, the node connects to the router.
	wanted.Peers[0].Passive = false
	apply(t, s, wanted)
	frr.Await("198.51.100.1/32 via 192.0.2.1")
}
