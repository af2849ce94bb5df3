package preflight

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMissingPackagesAreOneAptCommand(t *testing.T) {
	old := needs
	t.Cleanup(func() { needs = old })
	needs = []need{{"sh", "dash"}, {"no-such-program", "this"}, {"/no/such/file", "this"}, {"nor-this", "that"}}
	errs := packages()
	if len(errs) != 1 || !strings.Contains(errs[0].Error(), "apt-get install -y --no-install-recommends this that") {
		t.Errorf("errors are %v", errs)
	}
}

func TestProbingThisKernelLeavesNothingBehind(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test probes the kernel: run it as root")
	}
	scratch := filepath.Join(t.TempDir(), "lab.probe")
	for _, err := range kernel(scratch) {
		t.Error(err)
	}
	if _, err := os.Stat(scratch); err == nil {
		t.Error("the probes left a directory behind")
	}
	if _, err := os.Stat("/sys/class/net/probe0"); err == nil {
		t.Error("the probes left an interface behind")
	}
}
