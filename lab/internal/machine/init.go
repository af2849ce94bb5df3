package machine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/lab/internal/cgroup"
)

// Arguments that make the lab's executable the first process of a machine: first outside of its
// control groups, then inside.
const (
	EnterCommand = "machine-enter"
	InitCommand  = "machine-init"
)

// File descriptors that the first process inherits.
const (
	gateFD     = 3 // readable once the process is recorded
	readyFD    = 4 // takes "ok", or the reason why there is no machine
	listenerFD = 5 // the socket for the program with Listener, if any
)

// EnterMain is the first stage of a machine's first process. It waits until its process is
// recorded, so that no unknown process can remain. Then it moves into the machine's control groups.
// Only this thread has the new cgroup namespace, so EnterMain replaces the process by exec.
func EnterMain(specFile string) error {
	runtime.LockOSThread()
	if _, err := io.ReadFull(os.NewFile(gateFD, "gate"), make([]byte, 1)); err != nil {
		return fmt.Errorf("the command that started this machine has gone: %w", err)
	}
	return report(enter(specFile))
}

func enter(specFile string) error {
	s, err := load(specFile)
	if err != nil {
		return err
	}
	groups, err := cgroup.Discover(s.Group)
	if err != nil {
		return err
	}
	if err := groups.Enter(s.Name); err != nil {
		return err
	}
	argv := []string{os.Args[0], InitCommand, specFile}
	return fmt.Errorf("start again within the control groups: %w", unix.Exec(os.Args[0], argv, os.Environ()))
}

// InitMain is the second stage of a machine's first process. It runs as long as the machine.
func InitMain(specFile string) error {
	s, err := load(specFile)
	if err != nil {
		return report(err)
	}
	groups, err := cgroup.Discover(s.Group)
	if err != nil {
		return report(err)
	}
	if err := errors.Join(unix.Sethostname([]byte(s.Name)), furnish(s, groups)); err != nil {
		return report(err)
	}
	l, err := listen(s.Socket)
	if err != nil {
		return report(err)
	}
	unix.CloseOnExec(gateFD)
	unix.CloseOnExec(listenerFD)
	sup := newSupervisor(s)
	go sup.reap()
	if err := report(nil); err != nil {
		return err
	}
	return sup.serve(l)
}

// report tells the starter the result, and returns err.
func report(err error) error {
	f := os.NewFile(readyFD, "ready")
	if err != nil {
		fmt.Fprint(f, err)
	} else {
		fmt.Fprint(f, "ok")
	}
	f.Close()
	return err
}

func load(specFile string) (Spec, error) {
	var s Spec
	b, err := os.ReadFile(specFile)
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(b, &s)
}
