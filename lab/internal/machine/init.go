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

// The words by which the lab's executable is told to become the first process
// of a machine: first outside its control groups, then within them.
const (
	EnterCommand = "machine-enter"
	InitCommand  = "machine-init"
)

// File descriptors that the first process is born with.
const (
	gateFD     = 3 // readable once the process has been recorded
	readyFD    = 4 // takes "ok", or the reason why there is no machine
	listenerFD = 5 // the socket of the program with Listener, if any
)

// EnterMain is the first life of a machine's first process. It waits until it
// is recorded, so that none can be left behind unknown, and moves into the
// machine's control groups. The new cgroup namespace is this thread's alone, so
// it goes on by replacing itself.
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

// InitMain is the second life of a machine's first process, and lasts as long
// as the machine.
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

// report tells the starter how it went and passes err on.
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
