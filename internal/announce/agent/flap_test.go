package agent

import (
	"errors"
	"strings"
	"testing"
	"time"

	v2 "purelb.io/purelb/api/purelb/v2"
)

// withLifetime gives local addresses this lifetime in seconds; 0 is forever.
func withLifetime(seconds int32) func(*world) {
	spec := v2.InterfaceSpec{AddressConfig: &v2.AddressConfig{LocalInterface: &v2.AddressAttributes{ValidLifetime: &seconds}}}
	return func(w *world) { w.cluster.snapshot.Agents = []v2.LBNodeAgent{lbNodeAgent("default", spec)} }
}

// A failed removal is an error like any other.
func TestAFailedRemovalIsInTheState(t *testing.T) {
	inWorld(t, withLifetime(0), func(w *world) {
		w.kernel.change(func() { w.kernel.taken["2001:db8::9"], w.kernel.removeErr = 1000, errors.New("no right to remove") })
		w.cluster.change(serving(branded("web", "2001:db8::9")))
		pass(10 * time.Second)
		if state, _ := w.shows(t); !strings.Contains(state, "no right to remove") {
			t.Errorf("/state is\n%s", state)
		}
	})
}
