package process

import (
	"os"
	"runtime/debug"
)

// garbage is how much of it there may be before it is collected, in percent of
// what is in use: half of the usual. The programs are idle most of the time, and
// most of what they have in use stays, so there is little to collect.
const garbage = 50

// CollectSooner keeps less garbage in memory than is usual. It obeys the
// environment, if that says something.
func CollectSooner() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbage)
	}
}
