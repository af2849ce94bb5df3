package speaker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"

	"purelb.io/purelb/internal/bgp/gobgp"
)

// mostTraces limits the size of the file with traces, which may be in memory.
const mostTraces = 64 << 10

// keepTrace makes the runtime write the trace of a panic to a file too. It reports whether an earlier
// process of this pod panicked because a route did not fit into a message. The trace of such a panic
// stays in the file: it happens again as long as the node passes that route on.
func keepTrace(path string) (overflowed bool, err error) {
	earlier, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("read the last panic: %w", err)
	}
	overflowed = gobgp.Overflowed(string(earlier))
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return overflowed, fmt.Errorf("keep panics: %w", err)
	}
	stays := 0
	if overflowed {
		stays = min(len(earlier), mostTraces)
	}
	err = errors.Join(file.Truncate(int64(stays)), debug.SetCrashOutput(file, debug.CrashOptions{}), file.Close())
	if err != nil {
		return overflowed, fmt.Errorf("keep panics: %w", err)
	}
	return overflowed, nil
}
