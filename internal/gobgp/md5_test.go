package gobgp

import (
	"net/netip"
	"strings"
	"testing"

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
