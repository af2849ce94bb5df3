// Lab is a real Kubernetes cluster on one Linux machine. Every node is a set of namespaces, and
// every program is the real one. See README.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:])
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		os.Exit(exitCode(exit)) // the command in the machine has printed its error
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	name := "help"
	if len(args) > 0 {
		name, args = args[0], args[1:]
	}
	for _, list := range [][]command{commands, hidden} {
		if c, ok := find(list, name); ok {
			return c.run(ctx, args)
		}
	}
	return fmt.Errorf("no command %q: try `lab help`", name)
}

func find(list []command, name string) (command, bool) {
	i := slices.IndexFunc(list, func(c command) bool { return c.name == name })
	if i < 0 {
		return command{}, false
	}
	return list[i], true
}

// exitCode is the exit code that a shell would use.
func exitCode(e *exec.ExitError) int {
	if ws, ok := e.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return e.ExitCode()
}
