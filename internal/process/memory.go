package process

import (
	"io/fs"
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
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

// usable is how much of a container's memory the runtime may take, in percent. The rest
// is for what the runtime does not count.
const usable = 90

// RespectMemoryLimit has the runtime collect garbage more often before it takes more
// memory than its container has. It obeys GOMEMLIMIT, if that is set. files is the root
// of the file system.
func RespectMemoryLimit(files fs.FS) {
	if limit, ok := containerMemory(files); ok && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit / 100 * usable)
	}
}

// containerMemory is the limit of the container in bytes, if it has one.
func containerMemory(files fs.FS) (int64, bool) {
	for _, name := range []string{"sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			continue
		}
		// Without a limit the first says "max", and the second a number that is too large.
		limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		return limit, err == nil && limit > 0 && limit < math.MaxInt64/2
	}
	return 0, false
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
