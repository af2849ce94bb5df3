package e2e

import (
	"testing"
	"time"
)

// Promise: if nothing changes, nobody writes to the API server but a slow heartbeat.

func TestAnIdleClusterIsQuiet(t *testing.T) {
	w := newWorld(t)
	w.apply(echo("web", 2), service("web", "local"), service("far", "remote"))
	w.addresses("web", families())
	w.addresses("far", families())
	writes := w.countWrites()
	w.idle(writes)
	const watched = 15 * time.Second
	before := writes.Load()
	time.Sleep(watched) // nothing to wait for: the promise is that nothing happens
	// Each agent renews its Lease every minute at most, and the Leases are not in step.
	if wrote := writes.Load() - before; wrote > int64(len(lab.Nodes())) {
		t.Errorf("in %s, the API server got %d writes of %d agents, want one heartbeat of each at most", watched, wrote, len(lab.Nodes()))
	}
}
