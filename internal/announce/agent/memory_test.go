package agent

import (
	"fmt"
	"net/netip"
	"runtime/debug"
	"testing"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/testing/expect"
)

func TestMemoryIsFreedOnceAfterManyChanges(t *testing.T) {
	a := New(Options{})
	busy := map[netip.Addr]announce.Address{addrOf("192.0.2.9"): {}}
	for _, step := range []struct {
		name      string
		addresses int
		added     map[netip.Addr]announce.Address
		want      bool
	}{
		{"few came", 999, nil, false},
		{"many come", 5000, busy, false},
		{"after many came", 5000, nil, true},
		{"nothing happens", 5000, nil, false},
		{"few go", 4500, nil, false},
		{"after many went", 4000, nil, true},
	} {
		expect.Equal(t, step.name+": memory is freed", len(a.freeMemory(step.addresses, &announce.Outcome{Added: step.added}).tasks) == 1, step.want)
	}
}

// With few addresses, the agent uses little memory. With a low GC percentage it would then collect
// garbage most of the time.
func TestGarbageIsCollectedSoonerWithManyAddresses(t *testing.T) {
	before := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	t.Setenv("GOGC", "")
	a := New(Options{})
	for _, step := range []struct{ addresses, want int }{{5000, 50}, {1500, 50}, {10, 100}} {
		for _, run := range a.freeMemory(step.addresses, &announce.Outcome{}).tasks {
			run(t.Context())
		}
		got := debug.SetGCPercent(100)
		debug.SetGCPercent(got)
		expect.Equal(t, fmt.Sprintf("with %d addresses the GC percentage", step.addresses), got, step.want)
	}
}
