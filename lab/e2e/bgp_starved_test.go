package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Promise: a speaker that gets little or no CPU time for some seconds keeps its sessions, and BFD comes back by
// itself.

// shortHold asks for the shortest usual hold time, and withBoth asks for BFD beside it.
const (
	shortHold = "timers: {config: {holdTime: 9}}"
	withBoth  = shortHold + "\n    bfd: {}"
)

// still are the times for which a speaker is stopped.
var still = []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 8 * time.Second}

// peerWithout changes the sessions as peer does, and waits until a node has no BFD.
func (w *world) peerWithout(how, node string) {
	w.t.Helper()
	w.peer(how)
	w.until(patience, node+" has a session without BFD", func() bool { return strings.HasSuffix(w.neighborOf(node), " Established") })
}

// heard waits until the router and a node have just sent each other a message. The router counts in whole seconds.
func (w *world) heard(node string) {
	w.t.Helper()
	for _, now := range []bool{false, true} {
		w.until(patience, fmt.Sprintf("the router and %s have heard each other just now: %t", node, now), func() bool {
			s := w.told()[node]
			return (s.Read == 0 && s.Written == 0) == now
		})
	}
}

// speakerOn returns the process of the speaker on a node.
func (w *world) speakerOn(node string) int {
	w.t.Helper()
	pid, ok := processOf("k8gobgp", "NODE_NAME="+node)
	if !ok {
		w.t.Fatalf("there is no speaker on %s", node)
	}
	return pid
}

// standStill stops the speaker on a node for a while.
func (w *world) standStill(node string, d time.Duration) {
	w.t.Helper()
	pid := w.speakerOn(node)
	signal := func(sig syscall.Signal) {
		if err := syscall.Kill(pid, sig); err != nil {
			w.t.Errorf("signal %v to the speaker on %s: %v", sig, node, err)
		}
	}
	resume := w.undoable(func() { signal(syscall.SIGCONT) })
	signal(syscall.SIGSTOP)
	time.Sleep(d)
	resume()
}

func TestASpeakerThatStandsStillKeepsItsSession(t *testing.T) {
	w := newWorld(t)
	w.peerWithout(shortHold, "node-2")
	addresses := w.remote()
	f, had := w.followRoutes(), w.told()["node-2"]
	for _, d := range still {
		if d > 5*time.Second { // the last messages may be three seconds old
			w.heard("node-2")
		}
		w.standStill("node-2", d)
		time.Sleep(3 * time.Second) // a late loss counts too
		if now := w.told()["node-2"]; !now.up() || now.Established != had.Established {
			t.Errorf("after a stop of %s the session is %s and was established %d times, want %d", d, now.State, now.Established, had.Established)
		}
	}
	f.nothing(addresses...)
}

// BFD takes a node whose speaker stands still for dead, and the router then ends the session.
func TestBFDComesBackAfterASpeakerStoodStill(t *testing.T) {
	w := newWorld(t)
	w.peer(withBoth)
	w.detects()
	addresses := w.remote()
	back := func() {
		t.Helper()
		w.sessions()
		w.detects()
		w.everywhere(addresses...)
	}
	for _, d := range still {
		w.standStill("node-2", d)
		back()
	}
	lift := w.limitCPU(w.speakerOn("node-2"))
	time.Sleep(20 * time.Second)
	lift()
	back()
}

func TestASpeakerWithLittleCPUKeepsItsSession(t *testing.T) {
	w := newWorld(t)
	w.peerWithout(shortHold, "node-2")
	addresses := w.remote()
	lift := w.limitCPU(w.speakerOn("node-2"))
	f, had := w.followRoutes(), w.told()["node-2"]
	time.Sleep(time.Minute)
	if now := w.told()["node-2"]; !now.up() || now.Established != had.Established {
		t.Errorf("the session is %s and was established %d times, want %d", now.State, now.Established, had.Established)
	}
	f.nothing(addresses...)
	w.apply(service("late", "remote"))
	w.everywhere(w.addresses("late", families())...)
	lift()
}

// limitCPU limits the container of a process to 2 of each 100 ms of a CPU, as the kubelet does for the limit 20m.
func (w *world) limitCPU(pid int) (lift func()) {
	w.t.Helper()
	file, few, all := w.cpuQuota(pid)
	set := func(value string) {
		if err := os.WriteFile(file, []byte(value), 0o644); err != nil {
			w.t.Errorf("limit the CPU of process %d: %v", pid, err)
		}
	}
	set(few)
	return w.undoable(func() { set(all) })
}

// cpuQuota returns the file of the control group of a process that limits its CPU time, and the values for a limit of
// 20m and for none.
func (w *world) cpuQuota(pid int) (file, few, all string) {
	w.t.Helper()
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		w.t.Fatal(err)
	}
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(parts) < 3:
		case slices.Contains(strings.Split(parts[1], ","), "cpu"):
			return filepath.Join("/sys/fs/cgroup/cpu", parts[2], "cpu.cfs_quota_us"), "2000", "-1"
		case parts[1] == "": // the last line
			return filepath.Join("/sys/fs/cgroup", parts[2], "cpu.max"), "2000 100000", "max 100000"
		}
	}
	w.t.Fatalf("process %d is in no control group for CPU time:\n%s", pid, groups)
	return "", "", ""
}
