package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"purelb.io/purelb/lab/internal/machine"
	"purelb.io/purelb/lab/kube"
)

// API returns the client of the lab itself for the cluster's API server.
func (c *Cluster) API() (*kube.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.api == nil {
		api, err := kube.New(c.Kubeconfig())
		if err != nil {
			return nil, err
		}
		c.api = api
	}
	return c.api, nil
}

// answering is the time in which the API server must answer. A longer wait ends with it, and is tried
// again: the API server may have stopped.
const answering = 5 * time.Second

// Running reports whether a machine has power.
func (c *Cluster) Running(machine string) bool {
	p, err := c.Spec.State.Process(machine)
	return err == nil && p.Alive()
}

// Since returns when a running machine was powered on.
func (c *Cluster) Since(machine string) (time.Time, bool) {
	at, err := c.Spec.State.Since(machine)
	return at, err == nil && c.Running(machine)
}

// Problems returns the problems of the lab, if any.
func (c *Cluster) Problems(ctx context.Context) []string {
	var found []string
	if !c.Record.Up {
		found = append(found, "its start was not finished")
	}
	for _, m := range c.Machines() {
		found = append(found, c.machineProblems(m.Name)...)
	}
	return append(found, c.apiProblems(ctx)...)
}

func (c *Cluster) machineProblems(name string) []string {
	if !c.Running(name) {
		return []string{name + " is off"}
	}
	programs, err := c.Programs(name)
	if err != nil {
		return []string{fmt.Sprintf("%s: %v", name, err)}
	}
	var found []string
	for _, p := range programs {
		if !p.Healthy() {
			found = append(found, fmt.Sprintf("%s on %s: %s", p.Name, name, p.Ended))
		}
	}
	return found
}

func (c *Cluster) apiProblems(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := c.NodesReady(ctx); err != nil {
		return []string{err.Error()}
	}
	return nil
}

// NodesReady returns nil if the API server answers and every node is ready. A node's status from
// before its last power cut does not count.
func (c *Cluster) NodesReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answering)
	defer cancel()
	api, err := c.API()
	if err != nil {
		return err
	}
	ready, err := api.ReadyNodes(ctx)
	if err != nil {
		return err
	}
	for _, n := range c.Nodes() {
		if boot := ready[n.Name]; boot == "" || boot != c.bootID(n.Name) {
			return fmt.Errorf("%s is not Ready", n.Name)
		}
	}
	return nil
}

// bootID is the kernel's boot id as a machine's kubelet reads it.
func (c *Cluster) bootID(name string) string {
	p, err := c.Spec.State.Process(name)
	if err != nil {
		return ""
	}
	return machine.BootID(p.PID)
}

func (c *Cluster) apiReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answering)
	defer cancel()
	api, err := c.API()
	if err != nil {
		return err
	}
	return api.Ready(ctx)
}

// WaitReady waits until NodesReady succeeds or the context ends.
func (c *Cluster) WaitReady(ctx context.Context) error {
	return poll(ctx, 50*time.Millisecond, func() error { return c.NodesReady(ctx) })
}

// Put applies objects, and tries again until the end of the context. A new API server refuses Services
// until it has set up their addresses.
func (c *Cluster) Put(ctx context.Context, objects string) error {
	api, err := c.API()
	if err != nil {
		return err
	}
	return poll(ctx, 50*time.Millisecond, func() error {
		ctx, cancel := context.WithTimeout(ctx, answering)
		defer cancel()
		return api.Apply(ctx, objects)
	})
}

// final is an error that does not go away with waiting.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// poll calls f until it returns nil. If the context ends first, poll returns the
// last error of f.
func poll(ctx context.Context, every time.Duration, f func() error) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		err := f()
		if _, hopeless := errors.AsType[final](err); err == nil || hopeless {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}
