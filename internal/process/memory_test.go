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
