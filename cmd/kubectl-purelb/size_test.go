package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"purelb.io/purelb/internal/testing/expect"
)

// mostBytes is how large the plugin may be. People download it by krew.
const mostBytes = 60_000_000

// TestThePluginIsSmall builds the plugin for linux/amd64 as a release does, but without -trimpath: so Go
// uses the packages that it has compiled for tests.
func TestThePluginIsSmall(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "kubectl-purelb")
	build := exec.Command("go", "build", "-buildvcs=false", "-ldflags", "-s -w -buildid=", "-o", binary, ".")
	// With cgo the linker keeps all methods, because a dependency imports the package
	// plugin. Releases are built without.
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the plugin: %v\n%s", err, out)
	}
	info, err := os.Stat(binary)
	expect.NoError(t, err)
	fmt.Printf("RESULT cli_binary_mb %.1f MB\n", float64(info.Size())/1e6)
	if info.Size() > mostBytes {
		t.Errorf("the plugin has %d bytes, and may have %d", info.Size(), mostBytes)
	}
}
