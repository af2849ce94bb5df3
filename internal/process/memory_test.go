package process

import (
	"fmt"
	"math"
	"runtime/debug"
	"testing"
	"testing/fstest"
)

func TestTheRuntimeRespectsTheLimitOfItsContainer(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	const v2, v1 = "sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"
	for _, tt := range []struct {
		name, file, text, environment string
		want                          int64
	}{
		{"a limit", v2, "268435456\n", "", 241591860},
		{"a limit of cgroup v1", v1, "268435456\n", "", 241591860},
		{"no limit", v2, "max\n", "", math.MaxInt64},
		{"no limit of cgroup v1", v1, "9223372036854771712\n", "", math.MaxInt64},
		{"no container", "etc/hosts", "", "", math.MaxInt64},
		{"nonsense", v2, "a lot", "", math.MaxInt64},
		{"the environment sets the limit", v2, "268435456\n", "1GiB", math.MaxInt64},
	} {
		t.Run(tt.name, func(t *testing.T) {
			debug.SetMemoryLimit(math.MaxInt64)
			t.Setenv("GOMEMLIMIT", tt.environment)
			RespectMemoryLimit(fstest.MapFS{tt.file: {Data: []byte(tt.text)}})
			equal(t, "the limit", debug.SetMemoryLimit(-1), tt.want)
		})
	}
}

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
		equal(t, "the percentage with GOGC="+tt.environment, debug.SetGCPercent(200), tt.sooner)
		CollectUsually()
		equal(t, "the usual percentage with GOGC="+tt.environment, debug.SetGCPercent(200), tt.usually)
	}
}

func TestBurstEndsOnce(t *testing.T) {
	var b Burst
	for _, step := range []struct {
		count      int
		want, many bool
	}{{999, false, false}, {1500, true, true}, {1500, false, true}, {501, false, true}, {500, true, false}, {0, false, false}} {
		equal(t, fmt.Sprintf("with %d objects, the burst is over", step.count), b.Over(step.count), step.want)
		equal(t, fmt.Sprintf("with %d objects, many are left", step.count), b.Many(), step.many)
	}
}
