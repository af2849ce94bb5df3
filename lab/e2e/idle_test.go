package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// Promise: if nothing changes, the agents write nothing but their Leases, once a minute.

func TestAnIdleClusterIsQuiet(t *testing.T) {
	w := newWorld(t)
	w.apply(echo("web", 2), service("web", "local"), service("far", "remote"))
	w.addresses("web", families())
	w.addresses("far", families())
	writes := w.countWrites()
	w.idle(writes)
	const watched = 15 * time.Second
	writes.take()
	time.Sleep(watched) // the promise is that nothing happens, and no event tells that
	wrote := writes.take()
	leases := slices.DeleteFunc(slices.Clone(wrote), func(what string) bool { return !strings.HasPrefix(what, "*v1.Lease ") })
	if most := 2 * len(lab.Nodes()); len(leases) < len(wrote) || len(leases) > most {
		t.Errorf("in %s, the agents wrote\n  %s\nwant only their Leases, and at most %d", watched, strings.Join(wrote, "\n  "), most)
	}
}
