package lifecycle

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"purelb.io/purelb/lab/internal/cgroup"
	"purelb.io/purelb/lab/internal/state"
	"purelb.io/purelb/lab/internal/wire"
)

// Down ends the lab, even one that is only half built, and leaves nothing behind.
func Down(dir state.Dir, out io.Writer) error {
	unlock, err := lock(dir, out)
	if err != nil {
		return err
	}
	defer unlock()
	if !dir.Exists() {
		fmt.Fprintln(out, "the lab is not up")
	}
	return errors.Join(stop(dir), dir.Remove())
}

// stop ends every recorded process, and removes namespaces and control groups, which exist only in
// the kernel. Mounts end with the machines' namespaces.
func stop(dir state.Dir) error {
	if err := killAll(dir); err != nil {
		return err
	}
	var errs []error
	net := wire.Net(dir.Netns())
	for _, name := range net.Namespaces() {
		errs = append(errs, net.Delete(name))
	}
	groups, err := cgroup.Discover(dir.Group())
	if err == nil {
		err = groups.Remove("")
	}
	return errors.Join(append(errs, err)...)
}

// killAll kills the first process of every machine. The kernel then ends all other processes of the
// machine.
func killAll(dir state.Dir) error {
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		errs []error
	)
	for _, name := range dir.Recorded() {
		wg.Go(func() {
			p, err := dir.Process(name)
			if err == nil {
				err = p.Kill()
			}
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, fmt.Errorf("machine %s: %w", name, err))
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
