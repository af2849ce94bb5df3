package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"purelb.io/purelb/lab/internal/cgroup"
	"purelb.io/purelb/lab/internal/machine"
	"purelb.io/purelb/lab/internal/spec"
	"purelb.io/purelb/lab/internal/state"
)

// Crash cuts a machine's power: its ports go dark, and in the same moment all
// of its processes are gone, and its kernel's addresses and routes with them.
func (c *Cluster) Crash(name string) error {
	m, err := c.Machine(name)
	if err != nil {
		return err
	}
	unlock, err := c.Spec.State.Lock()
	if err != nil {
		return err
	}
	defer unlock()
	var errs []error
	for _, n := range m.NICs {
		errs = append(errs, c.net().SetPort(name, n.Name, false))
	}
	return errors.Join(append(errs, c.remove(m))...)
}

// remove ends what is left of a machine. What is on its disks stays.
func (c *Cluster) remove(m Machine) error {
	p, err := c.Spec.State.Process(m.Name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := p.Kill(); err != nil {
		return fmt.Errorf("%s: %w", m.Name, err)
	}
	groups, err := cgroup.Discover(c.Spec.State.Group())
	if err != nil {
		return err
	}
	return errors.Join(c.net().Unplug(m.Name, m.NICs), c.net().Delete(m.Name), groups.Remove(m.Name))
}

// Boot gives a machine power again, and returns when its programs have been
// started. A machine that runs is left alone.
func (c *Cluster) Boot(ctx context.Context, name string) error {
	m, err := c.Machine(name)
	if err != nil {
		return err
	}
	unlock, err := c.Spec.State.Lock()
	if err != nil {
		return err
	}
	defer unlock()
	if p, err := c.Spec.State.Process(name); err == nil && p.Alive() {
		return nil
	}
	if err := c.remove(m); err != nil {
		return err
	}
	if err := c.PowerOn(m); err != nil {
		return err
	}
	return c.StartAll(ctx, name)
}

// PowerOn lays a machine's cables and starts it, without its programs.
func (c *Cluster) PowerOn(m Machine) error {
	if err := c.net().BuildMachine(m); err != nil {
		return err
	}
	listener, err := c.listen(m)
	if err != nil {
		return err
	}
	defer listener.Close()
	groups, err := cgroup.Discover(c.Spec.State.Group())
	if err != nil {
		return err
	}
	if err := groups.Create(m.Name); err != nil {
		return err
	}
	dir := c.Spec.State
	return machine.Start(c.Spec.Machine(m), machine.Birth{
		Program:  dir.Program(),
		SpecFile: filepath.Join(dir.Machine(m.Name), "spec.json"),
		Log:      dir.Log(m.Name, "init"),
		Netns:    c.net().Netns(m.Name),
		Listener: listener,
		Record: func(pid int) error {
			p, err := state.Identify(pid)
			if err != nil {
				return err
			}
			return dir.SetProcess(m.Name, p)
		},
	})
}

// listen opens the host's way to the API server, which goes to the control
// plane; other machines get nothing.
func (c *Cluster) listen(m Machine) (*os.File, error) {
	if m.Name != ControlPlane {
		return nil, nil
	}
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: c.Record.Port})
	if err != nil {
		return nil, err
	}
	defer func() { _ = l.Close() }()
	return l.File()
}

// StartAll starts all programs of a machine, in their order.
func (c *Cluster) StartAll(ctx context.Context, name string) error {
	m, err := c.Machine(name)
	if err != nil {
		return err
	}
	for _, p := range c.Spec.Machine(m).Programs {
		if err := c.Start(ctx, name, p.Name); err != nil {
			return err
		}
	}
	return nil
}

// Start starts a program of a machine, such as kube-apiserver on the control
// plane, and waits until it serves, where that can be seen. A program that
// runs is left alone.
func (c *Cluster) Start(ctx context.Context, name, program string) error {
	m, err := c.Machine(name)
	if err != nil {
		return err
	}
	if err := c.orders(name).Start(program); err != nil {
		return err
	}
	p, _ := c.Spec.Machine(m).Program(program)
	return poll(ctx, 20*time.Millisecond, func() error { return c.started(ctx, name, p) })
}

// started returns nil once the program serves, or has done its work.
func (c *Cluster) started(ctx context.Context, name string, p machine.Program) error {
	st, err := c.Program(name, p.Name)
	switch {
	case err != nil:
		return err
	case !st.Running && !st.Healthy():
		return final{fmt.Errorf("%s on %s: %s; see `lab logs %s %s`", p.Name, name, st.Ended, name, p.Name)}
	case p.Once && st.Running:
		return fmt.Errorf("%s on %s has not finished", p.Name, name)
	case p.Name == spec.APIServer:
		return c.apiReady(ctx)
	case p.Ready == "":
		return nil
	}
	first, err := c.Spec.State.Process(name)
	if err != nil {
		return err
	}
	_, err = os.Stat(fmt.Sprintf("/proc/%d/root%s", first.PID, p.Ready))
	return err
}

// Signal sends a signal to a program: SIGKILL and SIGTERM end it, SIGSTOP and
// SIGCONT make it hang for a while. Nothing starts it again but Start.
func (c *Cluster) Signal(machine, program string, sig syscall.Signal) error {
	return c.orders(machine).Signal(program, sig)
}

// Programs returns how the programs of a machine do.
func (c *Cluster) Programs(machine string) ([]Program, error) { return c.orders(machine).List() }

// Program returns how one program of a machine does.
func (c *Cluster) Program(machine, program string) (Program, error) {
	all, err := c.Programs(machine)
	if err != nil {
		return Program{}, err
	}
	for _, p := range all {
		if p.Name == program {
			return p, nil
		}
	}
	return Program{}, fmt.Errorf("%s has no program %q", machine, program)
}

func (c *Cluster) orders(name string) machine.Orders {
	return machine.Orders{Socket: filepath.Join(c.Spec.State.Machine(name), "orders.sock")}
}
