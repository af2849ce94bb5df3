package build

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// interval is the time between two progress reports of a long step.
const interval = 10 * time.Second

// step runs a command and reports on it: nothing if it is quick, a line every interval
// if it is slow, and all of its output if it fails.
func step(ctx context.Context, out io.Writer, what string, cmd *exec.Cmd) error {
	said := &transcript{}
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		return err
	}
	began := time.Now()
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	slow := false
	for {
		select {
		case <-tick.C:
			slow = true
			fmt.Fprintf(out, "  still %s: %s%s\n", what, time.Since(began).Round(time.Second), said.progress())
		case err := <-done:
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				return fmt.Errorf("%s: %w\n%s", what, err, said.tail())
			}
			if slow {
				fmt.Fprintf(out, "  done %s after %s\n", what, time.Since(began).Round(time.Second))
			}
			return nil
		}
	}
}

// transcript keeps the output of a command. The go command prints one line for each
// package that it compiles.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (t *transcript) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(b)
}

func (t *transcript) progress() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, last := 0, ""
	for s := bufio.NewScanner(bytes.NewReader(t.text.Bytes())); s.Scan(); n++ {
		last = s.Text()
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", %d so far, now at %s", n, strings.TrimPrefix(last, "go: downloading "))
}

func (t *transcript) tail() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(t.text.String()), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}
