package linux

import (
	"testing"
	"time"

	"purelb.io/purelb/internal/announce"
)

// Another machine has the address, so duplicate address detection fails. The kernel deletes an
// address with a lifetime, and keeps one without. The agent has to notice both.
func TestADuplicateIPv6AddressIsDetected(t *testing.T) {
	for name, lifetime := range map[string]time.Duration{"the kernel deletes it": time.Hour, "the kernel keeps it": announce.Forever} {
		t.Run(name, func(t *testing.T) {
			newWorld(t)
			there := newNeighborhood(t)
			there.ip(t, "addr add fd00::9/64 dev eth0 nodad")
			there.do(func() { served(t, "eth0", "fd00::9") })
			s := newStack(t)
			a := local("eth0", "fd00::9/64")
			a.Valid, a.NoDAD = lifetime, false
			put(t, s, a)
			if lifetime == announce.Forever {
				var failed []announce.Address
				eventually(t, "duplicate address detection has failed", func() bool {
					failed = announce.Failed(observe(t, s))
					return len(failed) == 1
				})
				remove(t, s, failed...)
			}
			eventually(t, "the duplicate is gone", func() bool { return addresses(t, s, "eth0") == "" })
		})
	}
}
