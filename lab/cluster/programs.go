package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"purelb.io/purelb/lab/internal/machine"
	"purelb.io/purelb/lab/internal/spec"
)

// StartAll starts all programs of a machine, in order.
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

// Start starts a program of a machine, such as kube-apiserver on the control plane. If the program
// reports readiness, Start waits for that. It does nothing if the program runs.
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

// started returns nil once the program serves, or has finished its work.
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

// Signal sends a signal to a program. SIGKILL and SIGTERM end it. SIGSTOP pauses it until SIGCONT.
// Only Start starts it again.
func (c *Cluster) Signal(machine, program string, sig syscall.Signal) error {
	return c.orders(machine).Signal(program, sig)
}

// Programs returns the state of the programs of a machine.
func (c *Cluster) Programs(machine string) ([]Program, error) { return c.orders(machine).List() }

// Program returns the state of one program of a machine.
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
