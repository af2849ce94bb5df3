// Package bgptest builds small networks with real routers in them, for tests
// that ask what a router's kernel does with what our speaker says.
//
// A network is made of namespaces that are joined by segments. A router is FRR
// or BIRD, run by the test in a namespace with configuration text that the test
// gives; what counts is what it put into its kernel: Routes, and every event
// that a Monitor saw.
//
//	func TestMain(m *testing.M) { os.Exit(bgptest.Main(m)) }
//
//	wire := bgptest.NewSegment(t)
//	wire.Join(bgptest.Here(t), "eth0", "192.0.2.1/24", "2001:db8::1/64")
//	ns := bgptest.NewNamespace(t)
//	wire.Join(ns, "eth0", "192.0.2.2/24", "2001:db8::2/64")
//	router := bgptest.FRR(t, ns, "router bgp 64514\n ...")
//	router.Await("198.51.100.1/32 via 192.0.2.1")
//
// Everything needs root, and fails without.
package bgptest

import (
	"fmt"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"purelb.io/purelb/internal/testing/processes"
)

// Patience is how long anything is waited for.
const Patience = 60 * time.Second

// Main runs each test of a package in a process of its own, with a network namespace and a process
// namespace, so that whatever the test starts ends with it. Several processes run at a time, because
// they mostly wait for routers. All goroutines of a process are in its namespace, those of libraries
// too.
func Main(m *testing.M) int {
	return processes.Run(m, processes.Options{
		Namespaces: syscall.CLONE_NEWNET | syscall.CLONE_NEWPID,
		Prepare: func() error {
			if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
				return fmt.Errorf("set lo up: %w\n%s", err, out)
			}
			return nil
		},
	})
}

// Await waits until got answers want.
func Await(t testing.TB, what, want string, got func() string) {
	t.Helper()
	var last string
	if !Eventually(func() bool { last = got(); return last == want }) {
		t.Fatalf("%s: after %v it is\n%s\nwant\n%s", what, Patience, last, want)
	}
}

// Eventually says whether is becomes true while there is patience.
func Eventually(is func() bool) bool {
	for end := time.Now().Add(Patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if is() {
			return true
		}
	}
	return is()
}
