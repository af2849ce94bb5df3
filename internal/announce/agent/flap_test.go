package agent

import (
	"errors"
	"strings"
	"testing"
	"time"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/testing/expect"
)

// withLifetime gives local addresses this lifetime in seconds; 0 is forever.
func withLifetime(seconds int32) func(*world) {
	spec := v2.InterfaceSpec{AddressConfig: &v2.AddressConfig{LocalInterface: &v2.AddressAttributes{ValidLifetime: &seconds}}}
	return func(w *world) { w.cluster.snapshot.Agents = []v2.LBNodeAgent{lbNodeAgent("default", spec)} }
}

func TestAClaimWaitsForDuplicateAddressDetection(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.kernel.change(func() { w.kernel.taken["2001:db8::9"] = 0 })
		w.kernel.changes()
		w.cluster.change(serving(branded("web", "192.0.2.9", "2001:db8::9")))
		pass(10 * time.Second)
		for _, text := range []string{"100ms claim 192.0.2.9", "1.1s claim 2001:db8::9", "2.1s claim 2001:db8::9"} {
			expect.Contains(t, "claims", strings.Join(w.kernel.claims(), "\n"), text)
		}
		expect.Equal(t, "slots", w.slots("web"), "node-a,eth0,192.0.2.9 node-a,eth0,2001:db8::9")
	})
}

func TestAnAddressThatIsRemovedRepeatedlyIsLeftAlone(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.serve(branded("web", "192.0.2.9"))
		w.kernel.changes()
		for range 600 {
			w.kernel.change(func() { w.kernel.addresses = w.kernel.addresses[:3] })
			pass(time.Second)
		}
		if changes := w.kernel.changes(); strings.Count(changes, "put") > 75 {
			t.Errorf("the agent adds the address after each removal:\n%s", changes)
		}
		expect.Contains(t, "events", w.reported(), announce.ErrVanishes4.Error())
		pass(2 * time.Minute)
		expect.Equal(t, "left alone", w.kernel.String(), "192.0.2.9/24 eth0")
	})
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
