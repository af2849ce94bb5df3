package e2e

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// Promise: people decide which node has a local address. After a rolling reboot one command spreads the
// addresses over the nodes again, or the group does, and no client notices.

func TestLocalAddressesAreSpreadAgainAfterARollingReboot(t *testing.T) {
	w := &troubled{newWorld(t), buildPlugin(t)}
	s := watchLocal(w.world)
	const services = 20
	all := s.addresses
	for i := 1; i < services; i++ {
		w.apply(service(fmt.Sprintf("web-%02d", i), "local"))
	}
	for i := 1; i < services; i++ {
		all = append(all, w.addresses(fmt.Sprintf("web-%02d", i), families())...)
	}
	w.crowd(all, "node-2", "node-1")

	s.begin()
	if got := w.asks("rebalance"); got.code != 0 {
		t.Fatalf("kubectl purelb rebalance ends with %d:\n%s", got.code, got.all)
	}
	s.rest(patience)
	s.end(convergence)
	w.spreadOut(all)
	if got := w.asks("rebalance --dry-run"); strings.Contains(got.all, "Ready") {
		t.Errorf("after it, kubectl purelb rebalance would move more:\n%s", got.all)
	}

	holder := s.holder()
	s.begin()
	if got := w.asks("move e2e/web " + other(t, holder)); got.code != 0 {
		t.Fatalf("kubectl purelb move ends with %d:\n%s", got.code, got.all)
	}
	s.elsewhere(holder)
	s.rest(patience)
	s.end(convergence)

	w.crowd(all, "node-1", "node-2")
	s.begin()
	t.Cleanup(func() { w.apply(groups) })
	w.apply(strings.Replace(groups, "  local:\n", "  local:\n    rebalanceAfter: 3s\n", 1))
	w.until(2*patience, "the group spreads the addresses", func() bool { return w.most(all) <= len(all)*3/4 })
	s.rest(patience)
	s.end(convergence)
}

// crowd puts all addresses on the last of nodes, as a rolling reboot of them leaves them.
func (w *troubled) crowd(all []netip.Addr, nodes ...string) {
	w.t.Helper()
	for _, other := range nodes {
		include := w.exclude(other)
		w.until(patience, "no address is on "+other, func() bool { return w.on(other, all) == 0 })
		include()
	}
}

// on returns how many of the addresses node has.
func (w *troubled) on(node string, all []netip.Addr) (n int) {
	w.t.Helper()
	for _, a := range all {
		links, err := lab.carriers(node, a)
		if err != nil {
			w.t.Fatal(err)
		}
		n += len(links)
	}
	return n
}

// most returns the largest number of addresses on one node.
func (w *troubled) most(all []netip.Addr) int {
	w.t.Helper()
	return max(w.on("node-1", all), w.on("node-2", all))
}

// spreadOut fails the test if a node has more than 1.5 times the mean of the addresses.
func (w *troubled) spreadOut(all []netip.Addr) {
	w.t.Helper()
	if most := w.most(all); most > len(all)*3/4 {
		w.t.Errorf("a node has %d of %d addresses", most, len(all))
	} else {
		w.t.Logf("the larger node has %d of %d addresses", most, len(all))
	}
}
