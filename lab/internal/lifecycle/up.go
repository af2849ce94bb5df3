// Package lifecycle builds the lab and takes it down. It calls the other packages in the right
// order.
package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"purelb.io/purelb/lab/cluster"
	"purelb.io/purelb/lab/internal/build"
	"purelb.io/purelb/lab/internal/preflight"
	"purelb.io/purelb/lab/internal/state"
	"purelb.io/purelb/lab/internal/topology"
)

// startLimit is much longer than a start takes. If a start takes longer, it is reported as hanging.
const startLimit = 3 * time.Minute

// Options are the options of `lab up`.
type Options struct {
	Nodes int
	World string // its name. "" means the value of LAB_WORLD, or the standard world
	Force bool
	Out   io.Writer
}

// Up brings the lab up. It leaves a healthy lab alone, unless forced. It takes an unhealthy lab
// down first.
func Up(ctx context.Context, dir state.Dir, o Options) error {
	world, err := topology.FindWorld(cmp.Or(o.World, os.Getenv("LAB_WORLD")))
	if err != nil {
		return err
	}
	o.World = world.Name
	if err := preflight.Inspect(dir.Probe()).Unready(); err != nil {
		return fmt.Errorf("this host cannot run the lab yet:\n%w", err)
	}
	bin, err := build.Build(ctx, o.Out, programsOf(world)...)
	if err != nil {
		return err
	}
	unlock, err := lock(dir, o.Out)
	if err != nil {
		return err
	}
	defer unlock()
	if done, err := settle(ctx, dir, o); done || err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("not up after %s", startLimit))
	defer cancel()
	if err := start(ctx, dir, bin, o); err != nil {
		return fmt.Errorf("%w\n(what was started is still there: look around, then `lab down`, or try `lab up` again)", err)
	}
	return nil
}

// programsOf returns the programs that must be built for a world.
func programsOf(w topology.World) []string {
	all := build.Always()
	if w.Network == topology.Flannel {
		all = append(all, "flannel")
	}
	return all
}

// lock prints a message if it must wait for another command.
func lock(dir state.Dir, out io.Writer) (unlock func(), err error) {
	tell := time.AfterFunc(time.Second, func() {
		fmt.Fprintln(out, "waiting for another lab command to finish")
	})
	defer tell.Stop()
	return dir.Lock()
}

// settle handles a lab that already exists.
func settle(ctx context.Context, dir state.Dir, o Options) (done bool, err error) {
	c, err := cluster.Recorded(dir)
	switch {
	case errors.Is(err, cluster.ErrDown):
		return false, clear(dir)
	case err != nil:
		return false, err
	case o.Force:
		fmt.Fprintln(o.Out, "taking the lab down first")
		return false, clear(dir)
	}
	if problems := c.Problems(ctx); len(problems) > 0 {
		fmt.Fprintf(o.Out, "the lab is not well: %s\nbuilding it anew\n", strings.Join(problems, "; "))
		return false, clear(dir)
	}
	if c.Record.Nodes != o.Nodes {
		return false, fmt.Errorf("the lab is up with %d nodes: `lab up --force --nodes %d` replaces it", c.Record.Nodes, o.Nodes)
	}
	if c.World().Name != o.World {
		return false, fmt.Errorf("the lab is up as the world %s: `lab up --force --world %s` replaces it", c.World().Name, o.World)
	}
	fmt.Fprintln(o.Out, "the lab is up already")
	return true, nil
}

// clear removes the remains of a lab.
func clear(dir state.Dir) error {
	if err := stop(dir); err != nil {
		return err
	}
	return dir.Clear()
}
