package agent

import (
	"errors"
	"strings"
	"testing"
	"time"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/announce"
)

// withLifetime gives local addresses this lifetime in seconds; 0 is forever.
func withLifetime(seconds int32) func(*world) {
	spec := v2.InterfaceSpec{AddressConfig: &v2.AddressConfig{LocalInterface: &v2.AddressAttributes{ValidLifetime: &seconds}}}
	return func(w *world) { w.cluster.snapshot.Agents = []v2.LBNodeAgent{lbNodeAgent("default", spec)} }
}

// The kernel keeps an address without a lifetime forever, also if another machine has it.
func TestAnAddressOfAnotherMachineIsRetriedSlowly(t *testing.T) {
	for name, lifetime := range map[string]int32{"with a lifetime": 60, "forever": 0} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, withLifetime(lifetime), func(w *world) {
				w.kernel.change(func() { w.kernel.taken["2001:db8::9"] = 1000 })
				w.kernel.changes()
				w.reported()
				w.cluster.change(serving(branded("web", "192.0.2.9", "2001:db8::9")))
				pass(time.Minute)
				writes := w.notes.written()
				pass(9 * time.Minute)
				changes := w.kernel.changes()
				if n := strings.Count(changes, "put 2001:db8::9"); n < 8 || n > 25 {
					t.Errorf("the address was added %d times in ten minutes:\n%s", n, changes)
				}
				lacks(t, "changes", changes, "claim 2001:db8::9")
				want(t, "slot writes without a change", w.notes.written()-writes, 0)
				want(t, "slots", w.slots("web"), "node-a,eth0,192.0.2.9")
				want(t, "events", w.reported(), "Normal AnnouncingLocal Node node-a announcing 192.0.2.9 on interface eth0\n"+
					"Normal AnnouncingLocal Node node-a announcing 2001:db8::9 on interface eth0\n"+
					"Warning AnnouncementFailed Node node-a could not announce 2001:db8::9 on interface eth0: "+announce.ErrVanishes6.Error())

				w.kernel.change(func() { w.kernel.taken["2001:db8::9"] = 0 })
				pass(2 * time.Minute)
				want(t, "events, when it is free", w.reported(), "Normal AnnouncingLocal Node node-a announcing 2001:db8::9 on interface eth0")
				want(t, "slots, when it is free", w.slots("web"), "node-a,eth0,192.0.2.9 node-a,eth0,2001:db8::9")
				want(t, "claims when the address is free", strings.Count(w.kernel.changes(), "claim 2001:db8::9"), 3)
			})
		})
	}
}

func TestAClaimWaitsForDuplicateAddressDetection(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.kernel.change(func() { w.kernel.taken["2001:db8::9"] = 0 })
		w.kernel.changes()
		w.cluster.change(serving(branded("web", "192.0.2.9", "2001:db8::9")))
		pass(10 * time.Second)
		for _, text := range []string{"100ms claim 192.0.2.9", "1.1s claim 2001:db8::9", "2.1s claim 2001:db8::9"} {
			contains(t, "claims", strings.Join(w.kernel.claims(), "\n"), text)
		}
		want(t, "slots", w.slots("web"), "node-a,eth0,192.0.2.9 node-a,eth0,2001:db8::9")
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
		if changes := w.kernel.changes(); strings.Count(changes, "put") > 30 {
			t.Errorf("the agent adds the address after each removal:\n%s", changes)
		}
		contains(t, "events", w.reported(), announce.ErrVanishes4.Error())
		pass(2 * time.Minute)
		want(t, "left alone", w.kernel.String(), "192.0.2.9/24 eth0")
	})
}

func TestAnAddressThatMovesOftenHasNotVanished(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.cluster.change(serving(branded("far", "203.0.113.7")))
		pass(time.Minute)
		w.reported()
		for i, dummy := range []string{"lb1", "lb2", "lb3", "lb4", "lb5"} {
			agent := lbNodeAgent("default", v2.InterfaceSpec{DummyInterface: v2.InterfaceName(dummy)})
			agent.Generation = int64(i + 2)
			w.cluster.change(func(s *objects) { s.Agents = []v2.LBNodeAgent{agent} })
			pass(500 * time.Millisecond)
			want(t, "kernel", w.kernel.String(), "203.0.113.7/32 "+dummy)
		}
		want(t, "events", w.reported(), "")
	})
}

// With more DAD probes (net.ipv6.conf.*.dad_transmits), duplicate address detection takes longer
// than the time after which an address counts as stable.
func TestAnAddressThatIsTentativeForLongIsRetriedSlowly(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.kernel.change(func() { w.kernel.taken["2001:db8::9"], w.kernel.detecting = 1000, 8*time.Second })
		w.kernel.changes()
		w.cluster.change(serving(branded("web", "2001:db8::9")))
		pass(10 * time.Minute)
		if changes := w.kernel.changes(); strings.Count(changes, "put 2001:db8::9") > 20 {
			t.Errorf("the agent adds the address too often:\n%s", changes)
		}
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
