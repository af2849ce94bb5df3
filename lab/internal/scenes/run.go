package scenes

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"purelb.io/purelb/lab/internal/build"
	"purelb.io/purelb/lab/internal/lifecycle"
	"purelb.io/purelb/lab/internal/state"
)

// The lines that the tests of lab/e2e print with the flag -scenes: Ready when they take the next name
// from standard input, and Ended with the name and "ok" or "failed".
const (
	Ready = "=== scenes: ready"
	Ended = "=== scenes: ended "
)

// Runner runs scenes.
type Runner struct {
	// Source is the folder of the lab's module.
	Source string
	// Labs is how many labs share the scenes.
	Labs int
	// World is the variation of the labs.
	World string
	// Force replaces a lab that is up.
	Force bool
	Out   io.Writer

	mu     sync.Mutex
	passed []string
	failed []string
}

// Run brings the labs up and runs the scenes. It returns the tests that passed. The first lab stays up,
// and the others are taken down. An error says that a scene failed or did not run.
func (r *Runner) Run(ctx context.Context, list []Scene) (passed []string, err error) {
	began := time.Now()
	var together, alone []Scene
	for _, s := range list {
		if s.Alone {
			alone = append(alone, s)
		} else {
			together = append(together, s)
		}
	}
	// This may take minutes, the first time, and says so.
	if _, err := build.Build(ctx, r.Out, build.Always()...); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "purelb-scenes-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "e2e.test")
	compile := exec.CommandContext(ctx, "go", "test", "-c", "-o", program, "./e2e")
	compile.Dir, compile.Stdout, compile.Stderr = r.Source, r.Out, r.Out
	if err := compile.Run(); err != nil {
		return nil, fmt.Errorf("compile lab/e2e: %w", err)
	}
	err = r.share(ctx, program, together, alone)
	for _, told := range r.failed {
		fmt.Fprint(r.Out, "failed: ", told)
	}
	fmt.Fprintf(r.Out, "scenes took %s in %d labs\n%d passed, %d failed\n", time.Since(began).Round(time.Second), r.Labs, len(r.passed), len(r.failed))
	if len(r.failed) > 0 {
		err = errors.Join(err, fmt.Errorf("%d scenes failed; bin/scenes has all that they printed", len(r.failed)))
	}
	return r.passed, err
}

// share runs scenes in all labs, and then those that need the machine alone in the first lab.
func (r *Runner) share(ctx context.Context, program string, together, alone []Scene) (err error) {
	var labs []*lab
	for n := range max(1, min(r.Labs, len(together))) {
		// Labs come up one after the other: each takes all cores for some seconds.
		l, err := r.open(ctx, program, n+1)
		if err != nil {
			return errors.Join(err, end(labs))
		}
		labs = append(labs, l)
	}
	first, others := labs[0], labs[1:]
	queue := queued(together)
	var working sync.WaitGroup
	for _, l := range labs {
		working.Go(func() { l.work(queue) })
	}
	working.Wait()
	err = end(others)
	rest := queued(alone)
	first.work(rest)
	for _, q := range []<-chan Scene{queue, rest} {
		for s := range q {
			r.ended(s, first.number, 0, false, "no lab is left to run this scene\n")
		}
	}
	return errors.Join(err, first.close())
}

// end ends the tests of labs, and takes all labs down but the first one.
func end(labs []*lab) error {
	var errs []error
	for _, l := range labs {
		errs = append(errs, l.close())
		if l.number > 1 {
			errs = append(errs, lifecycle.Down(l.dir, io.Discard))
		}
	}
	return errors.Join(errs...)
}

func queued(scenes []Scene) <-chan Scene {
	queue := make(chan Scene, len(scenes))
	for _, s := range scenes {
		queue <- s
	}
	close(queue)
	return queue
}

// most is how many of the last lines of a failed scene are printed.
const most = 300

// ended records and prints the result of a scene, with the end of its output if it failed.
func (r *Runner) ended(s Scene, lab int, took time.Duration, ok bool, output string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	word := "ok    "
	if ok {
		r.passed = append(r.passed, s.Test)
	} else {
		r.failed = append(r.failed, s.Test+"\n"+reasons(output))
		word = "FAILED"
		lines := strings.SplitAfter(output, "\n")
		if left := len(lines) - most; left > 0 {
			fmt.Fprintf(r.Out, "(bin/scenes/lab-%d.log has %d lines before these)\n", lab, left)
			lines = lines[left:]
		}
		fmt.Fprint(r.Out, strings.Join(lines, ""))
	}
	fmt.Fprintf(r.Out, "%s %4.0f s  lab %d  %s\n", word, took.Seconds(), lab, s.Test)
}

// ofTest matches the lines of testing.T's Log and Error, and those that continue them.
var ofTest = regexp.MustCompile(`(?m)^ +(\w+_test\.go:\d+: | {4}).*\n`)

// reasons returns the last lines that a test wrote itself. They say why it failed, and stand before
// the logs of all programs in its output.
func reasons(output string) string {
	const most = 30
	lines := ofTest.FindAllString(output, -1)
	return strings.Join(lines[max(0, len(lines)-most):], "")
}

// lab is a lab, and the process of the tests in it.
type lab struct {
	r      *Runner
	number int
	dir    state.Dir
	cmd    *exec.Cmd
	names  io.WriteCloser
	lines  *bufio.Scanner
	log    *os.File
	ready  bool  // the product is installed in the lab
	dead   error // why the process of the tests takes no more names
	closed bool
}

// open brings a lab up and starts the tests in it, which wait for names.
func (r *Runner) open(ctx context.Context, program string, number int) (*lab, error) {
	l := &lab{r: r, number: number, dir: state.Default().Beside(number)}
	began := time.Now()
	var said bytes.Buffer
	if err := lifecycle.Up(ctx, l.dir, lifecycle.Options{Nodes: 4, World: r.World, Force: r.Force, Out: &said}); err != nil {
		return nil, fmt.Errorf("lab %d: %w\n%s", number, err, said.String())
	}
	fmt.Fprintf(r.Out, "lab %d is up after %s\n", number, time.Since(began).Round(time.Second))
	logs := filepath.Join(r.Source, "..", "bin", "scenes")
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return nil, err
	}
	var err error
	if l.log, err = os.Create(filepath.Join(logs, fmt.Sprintf("lab-%d.log", number))); err != nil {
		return nil, err
	}
	l.cmd = exec.CommandContext(ctx, program, "-scenes", "-test.v", "-test.timeout=30m")
	l.cmd.Dir = filepath.Join(r.Source, "e2e")
	l.cmd.Env = append(os.Environ(), "LAB_STATE="+string(l.dir))
	if l.names, err = l.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := l.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	l.cmd.Stderr = l.cmd.Stdout
	l.lines = bufio.NewScanner(out)
	l.lines.Buffer(nil, 16<<20)
	return l, l.cmd.Start()
}

// work runs the scenes of the queue one after the other, until the queue is empty or the process of
// the tests ends.
func (l *lab) work(queue <-chan Scene) {
	for l.dead == nil {
		if !l.ready {
			output, ok := l.until(Ready)
			if l.ready = ok; !ok {
				fmt.Fprint(l.r.Out, output)
				l.dead = fmt.Errorf("lab %d: the tests ended before they took a scene", l.number)
				return
			}
		}
		s, more := <-queue
		if !more {
			return
		}
		began := time.Now()
		output, ok := "", false
		if _, err := fmt.Fprintln(l.names, s.Test); err == nil {
			output, ok = l.until(Ended + s.Test)
		}
		if !ok {
			l.dead = fmt.Errorf("lab %d: the tests ended in %s", l.number, s.Test)
		}
		l.r.ended(s, l.number, time.Since(began), ok && strings.HasSuffix(strings.TrimSpace(output), " ok"), output)
	}
}

// until reads lines up to one that begins with mark. It returns what it has read, and false if the
// output ended.
func (l *lab) until(mark string) (output string, found bool) {
	var text strings.Builder
	for l.lines.Scan() {
		line := l.lines.Text()
		fmt.Fprintln(&text, line)
		fmt.Fprintln(l.log, line)
		if strings.HasPrefix(line, mark) {
			return text.String(), true
		}
	}
	return text.String(), false
}

// close ends the tests. Later calls do nothing.
func (l *lab) close() error {
	if l.closed {
		return nil
	}
	l.closed = true
	_ = l.names.Close()
	if output, _ := l.until("\x00"); l.dead == nil && strings.Contains(output, "panic:") {
		fmt.Fprint(l.r.Out, output)
	}
	_ = l.cmd.Wait() // the exit code repeats what the scenes said
	_ = l.log.Close()
	return l.dead
}
