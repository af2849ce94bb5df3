package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"purelb.io/purelb/lab/cluster"
	"purelb.io/purelb/lab/internal/spec"
	"purelb.io/purelb/lab/internal/state"
	"purelb.io/purelb/lab/internal/topology"
	"purelb.io/purelb/lab/internal/wire"
)

func start(ctx context.Context, dir state.Dir, bin string, o Options) error {
	t := &timer{out: o.Out, began: time.Now()}
	port, err := freePort()
	if err != nil {
		return err
	}
	c, err := cluster.New(dir, state.Lab{Nodes: o.Nodes, World: o.World, Bin: bin, Port: port})
	if err != nil {
		return err
	}
	// The record is written first, so that `lab down` knows of the lab.
	if err := dir.SetLab(c.Record); err != nil {
		return err
	}
	if err := ground(ctx, c); err != nil {
		return err
	}
	t.say("machines")
	if err := programs(ctx, c, t); err != nil {
		return err
	}
	c.Record.Up = true
	if err := dir.SetLab(c.Record); err != nil {
		return err
	}
	t.say("up")
	Hints(o.Out, c)
	return nil
}

// ground makes what programs need: keys, and the machines themselves.
func ground(ctx context.Context, c *cluster.Cluster) error {
	g, _ := errgroup.WithContext(ctx)
	g.Go(func() error { return keys(c) })
	g.Go(func() error { return machines(c) })
	return g.Wait()
}

func machines(c *cluster.Cluster) error {
	if err := errors.Join(copyProgram(c.Spec.State.Program()), wire.Net(c.Spec.State.Netns()).BuildSwitch()); err != nil {
		return err
	}
	var g errgroup.Group
	for _, m := range c.Machines() {
		g.Go(func() error { return c.PowerOn(m) })
	}
	return g.Wait()
}

// programs starts the programs of the machines, with as much concurrency as possible.
func programs(ctx context.Context, c *cluster.Cluster, t *timer) error {
	if err := foundation(ctx, c, t); err != nil {
		return err
	}
	if err := nodes(ctx, c); err != nil {
		return err
	}
	return c.WaitReady(ctx)
}

// foundation starts the API server, and the programs that do not need it.
func foundation(ctx context.Context, c *cluster.Cluster, t *timer) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return c.StartAll(ctx, topology.Router) })
	for _, n := range c.Nodes() {
		g.Go(func() error { return c.Start(ctx, n.Name, "containerd") })
	}
	g.Go(func() error { return c.StartAll(ctx, topology.ControlPlane) })
	if err := g.Wait(); err != nil {
		return err
	}
	t.say("control plane and router")
	return nil
}

func nodes(ctx context.Context, c *cluster.Cluster) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return images(ctx, c) })
	g.Go(func() error { return c.Put(ctx, c.Spec.DNS()) })
	for _, n := range c.Nodes() {
		g.Go(func() error {
			if err := c.Put(ctx, spec.Node(n)); err != nil {
				return fmt.Errorf("node object of %s: %w", n.Name, err)
			}
			return c.StartAll(ctx, n.Name)
		})
	}
	return g.Wait()
}

// images puts the lab's own images into the registry.
func images(ctx context.Context, c *cluster.Cluster) error {
	for program, names := range map[string][]string{
		"pause": {spec.PauseImage},
		"echo":  {"lab/echo:latest", "lab/echo:1"},
	} {
		for _, name := range names {
			if _, err := c.AddImage(ctx, name, filepath.Join(c.Spec.Bin, program)); err != nil {
				return err
			}
		}
	}
	return nil
}

// usualPort is the host's port to the API server, unless another program uses it.
const usualPort = 16443

func freePort() (int, error) {
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: usualPort})
	if err != nil {
		l, err = net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	}
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// copyProgram copies this executable for the machines. The running file may be temporary. If a test
// boots a node, the running file is not the lab's command at all.
func copyProgram(to string) error {
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer from.Close()
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}

// timer reports each step and its time.
type timer struct {
	out   io.Writer
	began time.Time
}

func (t *timer) say(what string) {
	fmt.Fprintf(t.out, "%6.1fs  %s\n", time.Since(t.began).Seconds(), what)
}
