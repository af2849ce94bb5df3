package linux

import (
	"testing"

	"purelb.io/purelb/internal/announce"
)

// Duplicate address detection fails. The kernel still keeps the address, because the address has no
// lifetime.
func TestAPermanentDuplicateIsDetectedAndRemoved(t *testing.T) {
	newWorld(t)
	there := newNeighborhood(t)
	there.ip(t, "addr add fd00::9/64 dev eth0 nodad")
	there.do(func() { served(t, "eth0", "fd00::9") })
	s := newStack(t)
	a := local("eth0", "fd00::9/64")
	a.Valid, a.NoDAD = announce.Forever, false
	put(t, s, a)
	var failed []announce.Address
	eventually(t, "duplicate address detection has failed", func() bool {
		failed = announce.Failed(observe(t, s), nil)
		return len(failed) == 1
	})
	remove(t, s, failed...)
	if left := addresses(t, s, "eth0"); left != "" {
		t.Errorf("left is %s", left)
	}
}
