package e2e

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Every test ends with the same checks, whatever it is about. No program of the product has
// warned of anything that the test does not expect. No agent has received a message that it
// could not read. Every node has the routes that it had before.

// safetyNet is the state of the cluster at the begin of a test.
type safetyNet struct {
	complaints int
	dropped    map[string]dropped
	routes     map[string][]string
	expected   map[string]bool
	// anything says that the test breaks so much that programs may warn of anything.
	anything bool
}

// dropped counts the messages that the agent of a node could not read since it started.
type dropped struct {
	began float64 // in seconds since 1970
	n     float64
}

var (
	// always are messages that may come in any test.
	always = []string{
		// On a busy machine, three packets of BFD are 0.9 s late now and then. The tests of
		// BGP watch the routes of the router instead.
		"bfdDown", "neighborDown",
		// The allocator leaves addresses of other machines alone for ten minutes. An allocator
		// that starts says so.
		"addressQuarantined",
	}
	// withoutAPI are messages of programs that cannot reach the API server.
	withoutAPI = []string{
		"waitingForAPIServer", "watchWaits", "leaseNotRenewed", "nodeStatusNotWritten", "annotationNotWritten",
		"eventNotWritten", "statusFailed", "departureNotKnown",
		"Error retrieving lease lock", "error retrieving resource lock", "Failed to update lock", "Failed to watch", "allocator: leader election lost",
	}
)

// spread records the state for a test that begins.
func (w *world) spread() *safetyNet {
	w.t.Helper()
	n := &safetyNet{complaints: lab.book.read(lab), dropped: w.dropped(), routes: w.nodeRoutes(), expected: map[string]bool{}}
	for _, m := range always {
		n.expected[m] = true
	}
	return n
}

// expect names messages of programs of the product that this test allows.
func (w *world) expect(messages ...string) {
	for _, m := range messages {
		w.net.expected[m] = true
	}
}

// catch fails the test for what its checks found.
func (w *world) catch() {
	w.t.Helper()
	lab.book.read(lab)
	for _, c := range lab.book.since(w.net.complaints) {
		if !w.net.anything && !w.net.expected[c.Message] {
			w.t.Errorf("unexpected: %s", c)
		}
	}
	for node, now := range w.dropped() {
		was := w.net.dropped[node]
		if was.began != now.began {
			was.n = 0
		}
		if now.n > was.n {
			w.t.Errorf("the agent on %s could not read %v packets of other agents, and %v when the test began", node, now.n, was.n)
		}
	}
	w.sameRoutes()
}

// sameRoutes fails the test if a node's routes differ from those at its begin.
func (w *world) sameRoutes() {
	w.t.Helper()
	now := w.nodeRoutes()
	for limit := time.Now().Add(10 * time.Second); !maps.EqualFunc(now, w.net.routes, slices.Equal[[]string]) && time.Now().Before(limit); {
		time.Sleep(100 * time.Millisecond)
		now = w.nodeRoutes()
	}
	for node, was := range w.net.routes {
		if !slices.Equal(now[node], was) {
			w.t.Errorf("%s had the routes\n  %s\nand has\n  %s", node, strings.Join(was, "\n  "), strings.Join(now[node], "\n  "))
		}
	}
}

// nodeRoutes returns the routes of the nodes, except those of BGP, to pods, and of the
// interface for remote addresses.
func (w *world) nodeRoutes() map[string][]string {
	w.t.Helper()
	routes := map[string][]string{}
	for _, node := range lab.powered() {
		out, err := lab.Exec(w.ctx, node, "sh", "-c", "ip -4 route && ip -6 route")
		if err != nil {
			w.t.Errorf("routes of %s: %v", node, err)
		}
		for line := range strings.Lines(out) {
			line = strings.TrimSpace(line)
			if !strings.Contains(line, "proto bgp") && !strings.Contains(line, "dev kube-lb0") &&
				!strings.Contains(line, "dev cni0") && !strings.Contains(line, "dev veth") {
				routes[node] = append(routes[node], line)
			}
		}
		slices.Sort(routes[node])
	}
	return routes
}

// dropped returns what the agents of all nodes could not read. It leaves out an agent that
// does not answer.
func (w *world) dropped() map[string]dropped {
	w.t.Helper()
	all := map[string]dropped{}
	for _, node := range lab.powered() {
		out, err := lab.Exec(w.ctx, node, "curl", "--silent", "--fail", "--max-time", "10", "http://127.0.0.1:7472/metrics")
		if err != nil {
			continue
		}
		var d dropped
		for line := range strings.Lines(out) {
			name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
			value, _ := strconv.ParseFloat(text, 64)
			switch name {
			case "process_start_time_seconds":
				d.began = value
			case `purelb_gossip_packets_dropped_total{reason="bad_key"}`, `purelb_gossip_packets_dropped_total{reason="bad_format"}`:
				d.n += value
			}
		}
		all[node] = d
	}
	return all
}
