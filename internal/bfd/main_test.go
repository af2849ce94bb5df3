package bfd

import (
	"os"
	"runtime"
	"testing"

	"purelb.io/purelb/internal/bgptest"
)

// The first thread stays with TestMain, so that none of the goroutines that
// change their namespace takes it along: what it is in is that of the process.
func init() { runtime.LockOSThread() }

// TestMain gives the tests a network namespace of their own: the engine uses
// that of the process.
func TestMain(m *testing.M) { os.Exit(bgptest.Main(m)) }
