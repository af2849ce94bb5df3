package e2e

import (
	"net/netip"
	"slices"
	"time"

	"purelb.io/purelb/lab/router"
)

// wires follows the addresses on all interfaces of all nodes, by the messages of the nodes' kernels.
type wires struct {
	*world
	nodes map[string]*router.Watch[router.Added]
}

func (w *world) wires() *wires {
	w.t.Helper()
	all := &wires{w, map[string]*router.Watch[router.Added]{}}
	for _, n := range lab.Nodes() {
		watch, err := router.FollowAddresses(lab.Netns(n.Name))
		if err != nil {
			w.t.Fatal(err)
		}
		w.t.Cleanup(watch.Stop)
		all.nodes[n.Name] = watch
	}
	return all
}

// first returns the addresses that a node has had, and when each was there first.
func (w *wires) first(node string) map[netip.Addr]time.Time {
	w.t.Helper()
	seen, err := w.nodes[node].Seen()
	if err != nil {
		w.t.Fatal(err)
	}
	first := map[netip.Addr]time.Time{}
	for _, s := range slices.Backward(seen) {
		first[s.Address] = s.At
	}
	return first
}

// bare fails the test if a node carried an address of the other controller at any time.
func (w *wires) bare() {
	w.t.Helper()
	for node := range w.nodes {
		for a := range w.first(node) {
			if isOthers(a) {
				w.t.Errorf("%s carried %s, an address of the other controller", node, a)
			}
		}
	}
}

// await waits until an address was on every node. It returns the times at which the nodes got it, in order.
func (w *wires) await(a netip.Addr) (times []time.Time) {
	w.t.Helper()
	w.until(patience, "every node has "+a.String(), func() bool {
		times = nil
		for node := range w.nodes {
			if at, ok := w.first(node)[a]; ok {
				times = append(times, at)
			}
		}
		return len(times) == len(w.nodes)
	})
	slices.SortFunc(times, time.Time.Compare)
	return times
}

// fewest returns the smallest number of addresses of a network that a node has had.
func (w *wires) fewest(network netip.Prefix) int {
	w.t.Helper()
	var counts []int
	for node := range w.nodes {
		n := 0
		for a := range w.first(node) {
			if network.Contains(a) {
				n++
			}
		}
		counts = append(counts, n)
	}
	return slices.Min(counts)
}
