package process

import (
	"os"
	"runtime/debug"
)

// garbage is how much of it there may be before it is collected, in percent of
// what is in use: half of the usual.
const garbage = 50

// CollectSooner keeps less garbage in memory than is usual. It is for a program
// that has much in use, most of which stays: with a few megabytes in use, it would
// be collecting most of the time while something happens. It obeys the environment,
// if that says something.
func CollectSooner() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbage)
	}
}

// manyMore is by how many the number of things in memory must change until it is
// worth while to give back what that took on its way.
const manyMore = 1000

// Burst knows when memory should be given back: when many things have come or gone
// since it was. Left alone, the runtime holds for good what a burst needed, as
// hardly anything happens afterwards. Its user is the only one at a time.
type Burst struct{ last int }

// Over says whether to give memory back, by debug.FreeOSMemory, now that there are
// count things and no more of them come or go.
func (b *Burst) Over(count int) bool {
	if d := count - b.last; -manyMore < d && d < manyMore {
		return false
	}
	b.last = count
	return true
}
