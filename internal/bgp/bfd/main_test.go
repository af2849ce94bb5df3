package bfd

import (
	"os"
	"runtime"
	"testing"

	"purelb.io/purelb/internal/testing/bgptest"
)

// init reserves the first thread for TestMain. The namespace of the process is the namespace of its
// first thread. So no goroutine that changes its own namespace can change it.
func init() { runtime.LockOSThread() }

// TestMain gives the tests their own network namespace, because the engine uses the
// namespace of the process.
func TestMain(m *testing.M) { os.Exit(bgptest.Main(m)) }
