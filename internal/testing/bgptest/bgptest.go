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
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// Patience is how long anything is waited for.
const Patience = 60 * time.Second

// inside is the environment variable that says that Main has moved in.
const inside = "BGPTEST_INSIDE"

// Main runs the tests of a package in a network namespace of their own, and in
// a process namespace, so that whatever they start ends with them. All
// goroutines are in that namespace, those of libraries too.
func Main(m *testing.M) int {
	if os.Getenv(inside) != "" {
		if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "set lo up: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}
	self := exec.Command("/proc/self/exe", os.Args[1:]...)
	self.Args[0] = os.Args[0]
	self.Env = append(os.Environ(), inside+"=1")
	self.Stdin, self.Stdout, self.Stderr = os.Stdin, os.Stdout, os.Stderr
	self.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWPID,
		Pdeathsig:  syscall.SIGKILL,
	}
	err := self.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return max(exit.ExitCode(), 1)
	case err != nil:
		fmt.Fprintln(os.Stderr, "tests with routers make namespaces: run them as root:", err)
		return 1
	}
	return 0
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
