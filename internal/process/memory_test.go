package process

import (
	"runtime/debug"
	"testing"
)

func TestGarbageIsCollectedSoonerUnlessTheEnvironmentSaysWhen(t *testing.T) {
	before := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	for _, tt := range []struct {
		environment string
		want        int
	}{{"100", 100}, {"", 50}} {
		t.Setenv("GOGC", tt.environment)
		CollectSooner()
		if got := debug.SetGCPercent(100); got != tt.want {
			t.Errorf("with GOGC=%q it is collected at %d %%, want %d", tt.environment, got, tt.want)
		}
	}
}

func TestABurstIsOverOnceAfterManyCameOrWent(t *testing.T) {
	var b Burst
	for _, step := range []struct {
		count int
		want  bool
	}{{999, false}, {1500, true}, {1500, false}, {501, false}, {500, true}, {0, false}} {
		if got := b.Over(step.count); got != step.want {
			t.Errorf("with %d it is over: %v", step.count, got)
		}
	}
}
