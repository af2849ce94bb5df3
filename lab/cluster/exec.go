package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"purelb.io/purelb/lab/internal/machine"
	"purelb.io/purelb/lab/internal/state"
)

// Cmd is a command in a machine. Set Stdin, Stdout and Stderr as for exec.Cmd, but start it with
// this type's Start, Run or Output.
type Cmd struct {
	*exec.Cmd
	first state.Process
}

// Command returns a command that will run in all of the machine's namespaces.
// It is killed when the context ends.
func (c *Cluster) Command(ctx context.Context, name string, argv ...string) (*Cmd, error) {
	m, err := c.Machine(name)
	if err != nil {
		return nil, err
	}
	first, err := c.Spec.State.Process(name)
	if err != nil || !first.Alive() {
		return nil, fmt.Errorf("%s is not running", name)
	}
	s := c.Spec.Machine(m)
	cmd := exec.CommandContext(ctx, look(s.Path, argv[0]), argv[1:]...)
	cmd.Env = s.Environment(os.Environ())
	cmd.Dir = "/"
	return &Cmd{cmd, first}, nil
}

// Start starts the command in its machine.
func (c *Cmd) Start() error { return machine.Inside(c.first.PID, c.Cmd.Start) }

// Run starts the command and waits for its end.
func (c *Cmd) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

// Output runs the command and returns its standard output. The error contains its standard error.
func (c *Cmd) Output() (string, error) {
	var out, complaint bytes.Buffer
	c.Stdout, c.Stderr = &out, &complaint
	err := c.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%s: %w: %s", strings.Join(c.Args, " "), exit, strings.TrimSpace(complaint.String()))
	}
	return out.String(), err
}

// Exec runs a command in a machine and returns what it printed.
func (c *Cluster) Exec(ctx context.Context, machine string, argv ...string) (string, error) {
	cmd, err := c.Command(ctx, machine, argv...)
	if err != nil {
		return "", err
	}
	return cmd.Output()
}

// look finds a program in the machine's PATH. That has kubectl, and directories of the
// administrator that the host's PATH may lack.
func look(path, program string) string {
	if strings.Contains(program, "/") {
		return program
	}
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, program)
		if fi, err := os.Stat(file); err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0 {
			return file
		}
	}
	return program
}
