//go:build updown

// These tests bring their own lab up and down many times. The usual lab may be up at the same time,
// because the names differ.
//
//	go -C lab test -tags updown ./internal/lifecycle
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"purelb.io/purelb/lab/cluster"
	"purelb.io/purelb/lab/internal/build"
	"purelb.io/purelb/lab/internal/state"
)

var program, stateDir string

func TestMain(m *testing.M) {
	if err := setUp(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(filepath.Dir(program))
	os.Exit(code)
}

func setUp() error {
	dir, err := os.MkdirTemp("/var/lib", "lab-updown-")
	if err != nil {
		return err
	}
	program, stateDir = filepath.Join(dir, "lab"), filepath.Join(dir, "state")
	os.Setenv("LAB_STATE", stateDir)
	src, err := build.Source()
	if err != nil {
		return err
	}
	cmd := exec.Command("go", "build", "-o", program, ".")
	cmd.Dir, cmd.Stderr = src, os.Stderr
	if err := cmd.Run(); err != nil {
		return err
	}
	return build1()
}

// build1 builds all programs first, so that no test includes a build of minutes.
func build1() error {
	_, err := build.Build(context.Background(), os.Stderr)
	return err
}

func TestUpDownLeavesNothing(t *testing.T) {
	before, wires := host(t), network(t)
	lab(t, "up")
	if diff := cmp.Diff(wires, network(t)); diff != "" {
		t.Errorf("the lab changed the host's network (-before +now):\n%s", diff)
	}
	lab(t, "status")
	lab(t, "down")
	same(t, before)
	lab(t, "down") // a second down is no error
	same(t, before)
}

func TestASecondUpIsQuickAndChangesNothing(t *testing.T) {
	defer lab(t, "down")
	began := time.Now()
	lab(t, "up")
	building := time.Since(began)
	first := processes(t)
	began = time.Now()
	out := lab(t, "up")
	if took := time.Since(began); took > building/2 || !strings.Contains(out, "up already") {
		t.Errorf("took %s, the first time %s, and printed: %s", took, building, out)
	}
	if diff := cmp.Diff(first, processes(t)); diff != "" {
		t.Errorf("machines (-before +after):\n%s", diff)
	}
}

func TestAnInterruptedUpIsCleanedUp(t *testing.T) {
	before := host(t)
	for _, after := range []time.Duration{20, 70, 110, 130, 150, 170, 200, 250, 300, 500, 1000, 2000, 3000} {
		ctx, cancel := context.WithTimeout(t.Context(), after*time.Millisecond)
		out, err := exec.CommandContext(ctx, program, "up").CombinedOutput() // sends SIGKILL at the end of ctx
		if ctx.Err() == nil {
			t.Logf("up ended by itself before %dms: %v\n%s", after, err, out)
		}
		cancel()
		lab(t, "down")
		same(t, before)
	}
}

func TestHalfDeadLabIsRebuilt(t *testing.T) {
	defer lab(t, "down")
	lab(t, "up")
	p, err := state.Dir(stateDir).Process("node-3")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(program, "status").CombinedOutput(); err == nil || !strings.Contains(string(out), "node-3 is off") {
		t.Errorf("status: %v\n%s", err, out)
	}
	lab(t, "up")
	lab(t, "status")
}

func TestAnotherLabIsNotChanged(t *testing.T) {
	defer lab(t, "down")
	lab(t, "up", "--nodes", "1")
	for _, command := range []string{"up", "down"} {
		cmd := exec.Command(program, command)
		cmd.Env = append(os.Environ(), "LAB_STATE="+stateDir+"-other")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s of another lab: %v\n%s", command, err, out)
		}
		lab(t, "status")
	}
}

func TestACrashedNodeComesBack(t *testing.T) {
	defer lab(t, "down")
	lab(t, "up")
	c, err := cluster.Open()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"node-4", cluster.ControlPlane} {
		if err := c.Crash(name); err != nil {
			t.Fatal(err)
		}
		if c.Running(name) {
			t.Errorf("%s runs", name)
		}
		if err := c.Boot(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		if err := c.WaitReady(ctx); err != nil {
			t.Fatal(err)
		}
		lab(t, "status")
	}
}

// lab runs the command lab. It fails the test if the command fails.
func lab(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("lab %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func same(t *testing.T, before string) {
	t.Helper()
	if diff := cmp.Diff(before, host(t)); diff != "" {
		t.Errorf("the host (-before +after):\n%s", diff)
	}
}

// network describes the network of the root namespace.
func network(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	interfaces, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range interfaces {
		addrs, _ := i.Addrs()
		fmt.Fprintln(&b, i.Name, addrs)
	}
	routes, err := netlink.RouteList(nil, netlink.FAMILY_ALL)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range routes {
		fmt.Fprintln(&b, r)
	}
	return b.String()
}

// host describes all parts of the host that a lab may change.
func host(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(network(t))
	for _, file := range []string{
		"/proc/sys/net/ipv4/ip_forward", "/proc/sys/vm/overcommit_memory",
		"/proc/sys/kernel/panic", "/proc/sys/kernel/panic_on_oops",
	} {
		text, _ := os.ReadFile(file)
		fmt.Fprintf(&b, "%s: %s\n", file, text)
	}
	for _, pattern := range []string{
		"/run/*", "/run/netns/" + state.Dir(stateDir).Netns() + "*", "/etc/*", "/etc/cni/*", "/var/lib/*", stateDir + "*", "/var/log/*", "/var/tmp/*", "/opt/*",
		"/sys/fs/cgroup/*/" + state.Dir(stateDir).Group() + "*",
	} {
		files, _ := filepath.Glob(pattern)
		fmt.Fprintln(&b, pattern, strings.Join(files, "\n  "))
	}
	fmt.Fprintln(&b, strings.Join(processes(t), "\n"))
	fmt.Fprintln(&b, mounts(t))
	return b.String()
}

// mounts lists the mounts, without those of the usual lab.
func mounts(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		if !strings.Contains(line, "/netns/purelb-") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// processes lists the processes that a lab of these tests started.
func processes(t *testing.T) []string {
	t.Helper()
	var found []string
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if strings.Contains(string(text), stateDir+"/lab") {
			found = append(found, f)
		}
	}
	return found
}
