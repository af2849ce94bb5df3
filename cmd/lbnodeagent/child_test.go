package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/internal/testing/expect"
)

// asChild says in the environment what a process of this test binary is to be.
const asChild = "PURELB_TEST_AS"

func TestMain(m *testing.M) {
	switch os.Getenv(asChild) {
	case "agent":
		main()
	case "ticker":
		for range time.Tick(time.Second / events) {
		}
	default:
		os.Exit(m.Run())
	}
}

// child is this binary as something else.
func child(b *testing.B, as string, args ...string) *exec.Cmd {
	b.Helper()
	exe, err := os.Executable()
	expect.NoError(b, err)
	cmd := exec.Command(exe, args...)
	cmd.Env = append(os.Environ(), asChild+"="+as)
	cmd.Stderr = os.Stderr
	return cmd
}

// usage is what a process has used.
type usage struct {
	cpu     float64 // seconds
	wakeups float64 // how often a thread of it has waited for something
}

func (u usage) minus(v usage) usage { return usage{u.cpu - v.cpu, u.wakeups - v.wakeups} }
func (u usage) perWakeup() float64  { return u.cpu / u.wakeups }

// usage adds up the threads of a process. What has ended of them is missing, but
// Go ends none.
func (w *idleWorld) usage(cmd *exec.Cmd) (u usage) {
	w.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", cmd.Process.Pid))
	if err != nil || len(threads) == 0 {
		w.Fatal("the process has ended", err)
	}
	for _, thread := range threads {
		times, err := os.ReadFile(thread + "/schedstat")
		expect.NoError(w, err)
		ns, _ := strconv.ParseFloat(strings.Fields(string(times))[0], 64)
		u.cpu += ns / 1e9
		u.wakeups += w.field(thread+"/status", "voluntary_ctxt_switches:")
	}
	return u
}

// memory is what a process holds that is not backed by files, in MB.
func (w *idleWorld) memory(cmd *exec.Cmd) float64 {
	w.Helper()
	return w.field(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid), "RssAnon:") * 1024 / 1e6
}

// field is a number in a file of the kernel.
func (w *idleWorld) field(path, name string) float64 {
	w.Helper()
	text, err := os.ReadFile(path)
	expect.NoError(w, err)
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			n, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return n
		}
	}
	w.Fatalf("%s has no %s", path, name)
	return 0
}
