// Respawn runs a program, and runs it again at once when it is killed:
//
//	respawn PROGRAM ARGUMENT...
//
// A kubelet waits longer after each end of a container. So tests that kill a program many times put
// it into a container with respawn. The program keeps its pod, addresses and volumes.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: respawn PROGRAM ARGUMENT...")
		os.Exit(2)
	}
	ends := make(chan os.Signal, 1)
	signal.Notify(ends, syscall.SIGTERM, os.Interrupt)
	for {
		code, killed := run(os.Args[1:], ends)
		if !killed {
			os.Exit(code)
		}
	}
}

// run runs the program once, and passes signals on to it. It reports whether a signal killed the
// program.
func run(argv []string, ends <-chan os.Signal) (code int, killed bool) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "respawn:", err)
		return 1, false
	}
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case s := <-ends:
			_ = cmd.Process.Signal(s)
		case <-done:
		}
	}()
	exit, failed := errors.AsType[*exec.ExitError](cmd.Wait())
	if !failed {
		return 0, false
	}
	status, _ := exit.Sys().(syscall.WaitStatus)
	return exit.ExitCode(), status.Signaled() && status.Signal() == syscall.SIGKILL
}
