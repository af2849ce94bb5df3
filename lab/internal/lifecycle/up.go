// Package lifecycle builds the lab up and takes it down. It puts the other
// packages' work in order, and does little itself.
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

// startLimit is far more than a start takes. After it, a start that hangs is
// reported.
const startLimit = 3 * time.Minute

// Options are the choices that `lab up` has.
type Options struct {
	Nodes int
	World string // its name. "" is the one that LAB_WORLD names, or the standard one
	Force bool
	Out   io.Writer
}

// Up brings the lab up. A lab that is up and well is left alone, unless forced;
// one that is not well is taken down first.
func Up(ctx context.Context, dir state.Dir, o Options) error {
	world, err := topology.FindWorld(cmp.Or(o.World, os.Getenv("LAB_WORLD")))
	if err != nil {
		return err
	}
	o.World = world.Name
	if err := preflight.Check(dir.Probe()); err != nil {
		return err
	}
	bin, err := build.Build(ctx, o.Out)
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

// lock says so when it has to wait for another command.
func lock(dir state.Dir, out io.Writer) (unlock func(), err error) {
	tell := time.AfterFunc(time.Second, func() {
		fmt.Fprintln(out, "waiting for another lab command to finish")
	})
	defer tell.Stop()
	return dir.Lock()
}

// settle deals with a lab that is there already.
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

// clear removes what is left of a lab, except images that were put there for
// the next one.
func clear(dir state.Dir) error {
	if err := stop(dir); err != nil {
		return err
	}
	return dir.Clear()
}
