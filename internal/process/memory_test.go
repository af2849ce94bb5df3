package process

import (
	"fmt"
	"runtime/debug"
	"testing"

	"purelb.io/purelb/internal/testing/expect"
)

func TestGarbageIsCollectedSoonerByDefault(t *testing.T) {
	before := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	for _, tt := range []struct {
		environment     string
		sooner, usually int
	}{{"200", 200, 200}, {"", 50, 100}} {
		t.Setenv("GOGC", tt.environment)
		debug.SetGCPercent(200)
		CollectSooner()
		expect.Equal(t, "the percentage with GOGC="+tt.environment, debug.SetGCPercent(200), tt.sooner)
		CollectUsually()
		expect.Equal(t, "the usual percentage with GOGC="+tt.environment, debug.SetGCPercent(200), tt.usually)
	}
}

func TestBurstEndsOnce(t *testing.T) {
	var b Burst
	for _, step := range []struct {
		count      int
		want, many bool
	}{{999, false, false}, {1500, true, true}, {1500, false, true}, {501, false, true}, {500, true, false}, {0, false, false}} {
		expect.Equal(t, fmt.Sprintf("with %d objects, the burst is over", step.count), b.Over(step.count), step.want)
		expect.Equal(t, fmt.Sprintf("with %d objects, many are left", step.count), b.Many(), step.many)
	}
}
