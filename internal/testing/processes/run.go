package processes

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// run is a run of tests in several processes.
type run struct {
	namespaces uintptr
	// end is when -test.timeout is over. Zero means never.
	end time.Time
	// log is the file in which the go command wants to find what files and variables the tests
	// read. It takes the result of a test from its cache while those are the same.
	log string

	failed atomic.Bool
	// mu guards the standard output and read.
	mu sync.Mutex
	// read is what the tests read, in the form of log.
	read bytes.Buffer
}

func newRun(namespaces uintptr) *run {
	r := &run{namespaces: namespaces, log: value("test.testlogfile")}
	if limit, err := time.ParseDuration(value("test.timeout")); err == nil && limit > 0 {
		r.end = time.Now().Add(limit)
	}
	return r
}

// all runs the batches, n at a time, and returns the exit code.
func (r *run) all(batches [][]string, n int) int {
	queue := make(chan []string)
	var workers sync.WaitGroup
	for range n {
		workers.Go(func() {
			for names := range queue {
				r.batch(names)
			}
		})
	}
	for _, names := range batches {
		queue <- names
	}
	close(queue)
	workers.Wait()
	if err := r.writeLog(); err != nil {
		r.fail("%v", err)
	}
	verdict, code := "PASS", 0
	if r.failed.Load() {
		verdict, code = "FAIL", 1
	}
	fmt.Println(verdict)
	return code
}

// batch runs some tests in a process, and prints what it said.
func (r *run) batch(names []string) {
	args := append(slices.Clone(os.Args[1:]), "-test.run=^("+strings.Join(names, "|")+")$")
	if !r.end.IsZero() {
		left := time.Until(r.end)
		if left <= 0 {
			r.fail("not run before the end of -test.timeout: %s", strings.Join(names, " "))
			return
		}
		args = append(args, "-test.timeout="+left.String())
	}
	if r.log != "" {
		log := r.log + "." + names[0]
		args = append(args, "-test.testlogfile="+log)
		defer r.readLog(log)
	}
	cmd := child(r.namespaces, args)
	cmd.WaitDelay = time.Second // for what a test started and left behind
	out, err := cmd.CombinedOutput()
	r.print(out)
	var exit *exec.ExitError
	switch {
	case err == nil:
	case errors.As(err, &exit) && exit.ExitCode() == 1:
		r.failed.Store(true)
	default:
		r.fail("the process of %s: %v", strings.Join(names, " "), explain(err))
	}
}

// ending is the last line of package testing. The run prints its own.
var ending = regexp.MustCompile(`(?m)^\x16?(PASS|FAIL)\n\z`)

func (r *run) print(out []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = os.Stdout.Write(ending.ReplaceAll(out, nil))
}

func (r *run) fail(format string, args ...any) {
	r.failed.Store(true)
	r.print(fmt.Appendf(nil, format+"\n", args...))
}

// logHeader is the first line of a log.
const logHeader = "# test log\n"

// readLog takes over the log of a process. A process that dies leaves none.
func (r *run) readLog(name string) {
	text, err := os.ReadFile(name)
	_ = os.Remove(name)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.read.Write(bytes.TrimPrefix(text, []byte(logHeader)))
	}
}

func (r *run) writeLog() error {
	if r.log == "" {
		return nil
	}
	return os.WriteFile(r.log, append([]byte(logHeader), r.read.Bytes()...), 0o644)
}
