package bfd

import (
	"os"
	"runtime"
	"testing"

	"purelb.io/purelb/internal/bgptest"
)

// init keeps the first thread for TestMain. So no goroutine that changes its namespace can
// change the namespace of the process, which is that of the first thread.
func init() { runtime.LockOSThread() }

// TestMain gives the tests their own network namespace, because the engine uses the
// namespace of the process.
func TestMain(m *testing.M) { os.Exit(bgptest.Main(m)) }
