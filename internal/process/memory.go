package process

import (
	"os"
	"runtime/debug"
)

// garbage is the value of GOGC: how much garbage may be in memory before it is collected, in
// percent of the memory in use. usualGarbage is the default of the runtime.
const (
	garbage      = 50
	usualGarbage = 100
)

// CollectSooner keeps less garbage in memory than the default. It is for a program with much
// memory in use, most of which stays. A program with a few megabytes in use would spend most
// of its time collecting. The environment variable GOGC takes precedence.
func CollectSooner() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbage)
	}
}

// CollectUsually undoes CollectSooner.
func CollectUsually() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(usualGarbage)
	}
}

// manyMore is by how much the number of things in memory must change before memory is returned.
const manyMore = 1000

// Burst decides when to return memory: after many things were added or removed since the last
// time. Otherwise the runtime keeps the memory of a burst for good, because little happens
// afterwards. It is not safe for concurrent use.
type Burst struct{ last int }

// Over reports whether to return memory with debug.FreeOSMemory. count is the number of things,
// which has stopped changing.
func (b *Burst) Over(count int) bool {
	if d := count - b.last; -manyMore < d && d < manyMore {
		return false
	}
	b.last = count
	return true
}

// Many reports whether many things remained after the last burst.
func (b *Burst) Many() bool { return b.last >= manyMore }
