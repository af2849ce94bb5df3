package machine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/lab/internal/wire"
)

// Birth has what the start of a machine needs besides its Spec.
type Birth struct {
	Program  string // the lab's executable
	SpecFile string
	Log      string // where the first process reports errors
	Netns    string // path of the network namespace
	Listener *os.File
	// Record gets the process id before the process does anything.
	Record func(pid int) error
}

// Start makes the machine and returns when the machine accepts requests.
func Start(s Spec, b Birth) error {
	if err := prepare(s, b); err != nil {
		return fmt.Errorf("machine %s: %w", s.Name, err)
	}
	if err := b.start(); err != nil {
		return fmt.Errorf("machine %s: %w", s.Name, err)
	}
	return nil
}

func prepare(s Spec, b Birth) error {
	for _, dir := range s.Disks {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(
		os.MkdirAll(s.Logs, 0o755),
		os.MkdirAll(filepath.Dir(b.SpecFile), 0o755),
		os.WriteFile(b.SpecFile, text, 0o600))
}

func (b Birth) start() error {
	log, err := os.OpenFile(b.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	gate, open, err := os.Pipe()
	if err != nil {
		return err
	}
	defer open.Close()
	answer, ready, err := os.Pipe()
	if err != nil {
		return err
	}
	defer answer.Close()

	cmd := b.command(log, gate, ready)
	err = wire.In(b.Netns, cmd.Start)
	gate.Close()
	ready.Close()
	if err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }() // prevents a zombie if it ends while this process runs
	if err := b.Record(cmd.Process.Pid); err != nil {
		return err
	}
	if _, err := open.Write([]byte{1}); err != nil {
		return err
	}
	return outcome(answer)
}

// command is the first process. It gets new namespaces with two exceptions. It starts in the
// existing network namespace, and it changes its cgroup namespace itself.
func (b Birth) command(log, gate, ready *os.File) *exec.Cmd {
	cmd := &exec.Cmd{
		Path: b.Program, Args: []string{b.Program, EnterCommand, b.SpecFile},
		Dir: "/", Env: os.Environ(),
		Stdout: log, Stderr: log, ExtraFiles: []*os.File{gate, ready},
		SysProcAttr: &syscall.SysProcAttr{
			Setsid:     true,
			Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWPID,
		},
	}
	if b.Listener != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, b.Listener)
	}
	return cmd
}

func outcome(answer io.Reader) error {
	text, err := io.ReadAll(answer)
	switch {
	case err != nil:
		return err
	case string(text) == "ok":
		return nil
	case len(text) == 0:
		return errors.New("its first process died at once; see its init.log")
	}
	return errors.New(string(text))
}
