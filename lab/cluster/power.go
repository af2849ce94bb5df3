package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"purelb.io/purelb/lab/internal/cgroup"
	"purelb.io/purelb/lab/internal/machine"
	"purelb.io/purelb/lab/internal/spec"
	"purelb.io/purelb/lab/internal/state"
)

// Crash cuts a machine's power. At once its ports go down, and all its processes, addresses and
// routes are gone.
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

// remove removes the remains of a machine. Its disks stay.
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

// Boot powers a machine on, and returns after its programs have started, without those named. It does
// nothing if the machine runs.
func (c *Cluster) Boot(ctx context.Context, name string, without ...string) error {
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
	for _, p := range c.Spec.Machine(m).Programs {
		if slices.Contains(without, p.Name) {
			continue
		}
		if p.WithPods {
			c.awaitPods(ctx, name)
		}
		if err := c.Start(ctx, name, p.Name); err != nil {
			return err
		}
	}
	return nil
}

// podsLimit is the time in which a kubelet starts its first pod after its start. A node without pods and
// one that does not reach the API server start none.
const podsLimit = 5 * time.Second

// awaitPods waits until the kubelet of a node starts its first pod, or until podsLimit has passed.
func (c *Cluster) awaitPods(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(ctx, podsLimit)
	defer cancel()
	_ = poll(ctx, 20*time.Millisecond, func() error { // an error means that there is no pod
		first, err := c.Spec.State.Process(name)
		if err != nil {
			return err
		}
		pods, err := filepath.Glob(fmt.Sprintf("/proc/%d/root%s/*", first.PID, spec.Sandboxes))
		if err == nil && len(pods) == 0 {
			err = fmt.Errorf("%s has no pod", name)
		}
		return err
	})
}

// PowerOn connects a machine's cables and starts it, without its programs.
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

// listen opens the host's socket to the API server, which goes to the control plane machine. For
// other machines it returns nil.
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
