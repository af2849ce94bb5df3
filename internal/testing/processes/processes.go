// Package processes runs the tests of a package in processes of their own, several at a time. It is
// for tests that cannot share a process, such as those that own its network namespace, and that mostly
// wait.
//
//	func TestMain(m *testing.M) { os.Exit(processes.Run(m, processes.Options{})) }
//
// The output of a process is printed when the process ends. So go test -v and go test -json show each
// test as usual. All tests run in one process when a profile, coverage, a benchmark, a fuzz test, a
// random order, an end at the first failure or a subtest is asked for, and when only one test matches.
package processes

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// Options say what the processes are like.
type Options struct {
	// Namespaces are the clone flags of each process, such as CLONE_NEWNET. With CLONE_NEWPID,
	// whatever a test starts ends with its process.
	Namespaces uintptr
	// Prepare is called in each process before its tests.
	Prepare func() error
	// Run runs the tests of a process, and returns the exit code. The default is the method Run of
	// testing.M. Package apitest has one that ends its API server.
	Run func(*testing.M) int
	// Batch is how many tests run in each process, one after the other. The default is 1. Short
	// tests need more, because a process takes time to start.
	Batch int
	// AtOnce is how many processes run at a time. The default fits tests that mostly wait.
	AtOnce int
}

// inside is the environment variable of a process that runs the tests that its flags name.
const inside = "PURELB_TEST_INSIDE"

// Run runs the tests of a package, and returns the exit code.
func Run(m *testing.M, o Options) int {
	flag.Parse()
	if os.Getenv(inside) != "" {
		return o.here(m)
	}
	if isSet("test.list") {
		return m.Run()
	}
	batches, err := o.plan()
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "list the tests:", err)
		return 1
	case len(batches) > 1:
		return newRun(o.Namespaces).all(batches, cmp.Or(o.AtOnce, 4*runtime.NumCPU()))
	case o.Namespaces == 0:
		return o.here(m)
	}
	return alone(o.Namespaces)
}

// here runs the tests in this process.
func (o Options) here(m *testing.M) int {
	if o.Prepare != nil {
		if err := o.Prepare(); err != nil {
			fmt.Fprintln(os.Stderr, "prepare a process for tests:", err)
			return 1
		}
	}
	if o.Run != nil {
		return o.Run(m)
	}
	return m.Run()
}

// plan returns the names of the tests, by process. It returns none if one process is to run all.
func (o Options) plan() ([][]string, error) {
	if wantsOne() {
		return nil, nil
	}
	names, err := matching()
	return slices.Collect(slices.Chunk(names, max(o.Batch, 1))), err
}

// single are the flags that are about all tests in one process.
var single = []string{
	"test.bench", "test.fuzz", "test.shuffle", "test.failfast",
	"test.coverprofile", "test.cpuprofile", "test.memprofile", "test.blockprofile", "test.mutexprofile", "test.trace",
}

// wantsOne says whether all tests run in one process. Patterns of subtests are for package testing to
// read.
func wantsOne() bool {
	return testing.CoverMode() != "" || slices.ContainsFunc(single, isSet) ||
		strings.Contains(value("test.run")+value("test.skip"), "/")
}

// isSet says whether a flag has another value than its default.
func isSet(name string) bool {
	f := flag.Lookup(name)
	return f.Value.String() != f.DefValue
}

func value(name string) string { return flag.Lookup(name).Value.String() }

// matching returns the names of the tests, fuzz tests and examples that would run.
func matching() ([]string, error) {
	skip, err := regexp.Compile(value("test.skip"))
	if err != nil {
		return nil, err
	}
	list := exec.Command("/proc/self/exe", "-test.list="+cmp.Or(value("test.run"), "."))
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, err
	}
	var names []string
	for line := range strings.Lines(string(out)) {
		name := strings.TrimSpace(line)
		skipped := isSet("test.skip") && skip.MatchString(name)
		if !skipped && !strings.HasPrefix(name, "Benchmark") {
			names = append(names, name)
		}
	}
	return names, nil
}

// alone runs the tests that the flags name in one process, and returns its exit code.
func alone(namespaces uintptr) int {
	cmd := child(namespaces, os.Args[1:])
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return max(exit.ExitCode(), 1)
	case err != nil:
		fmt.Fprintln(os.Stderr, explain(err))
		return 1
	}
	return 0
}

// child returns a process that runs tests. It dies with this process.
func child(namespaces uintptr, args []string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// explain adds what to do about a process that cannot start.
func explain(err error) error {
	if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("these tests make namespaces, run them as root: %w", err)
	}
	return err
}
