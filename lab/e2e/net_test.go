package e2e

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Every test ends with the same checks. No program of the product has logged a warning that the test
// does not expect. No agent has received a message that it could not read. Every node has the same
// routes as at the start.

// safetyNet is the state of the cluster at the start of a test.
type safetyNet struct {
	complaints int
	dropped    map[string]dropped
	routes     map[string][]string
	expected   map[string]bool
	// anything allows all warnings, for tests with many faults.
	anything bool
	// breaks is true for a test that breaks connections to the API server.
	breaks bool
}

// brokenUntil is when the last programs have noticed that a test had broken their connections.
var brokenUntil time.Time

// noticing is how long a program takes for that: client-go asks a silent connection after 30 s, and
// waits 15 s for the answer (HealthCheck of its HTTP/2 transport).
const noticing = 50 * time.Second

// dropped counts the messages that an agent could not read since its start.
type dropped struct {
	began float64 // in seconds since 1970
	n     float64
}

var (
	// always are the messages that any test allows.
	always = []string{
		// On a busy machine, three packets of BFD may be 0.9 s late. The tests of BGP watch the routes of
		// the router instead.
		"bfdDown", "neighborDown",
		// The allocator quarantines addresses of other machines for ten minutes, and logs that when it
		// starts.
		"addressQuarantined",
		// A node that boots starts its agent and its kube-proxy together, and the agent reaches the API server
		// by kube-proxy.
		"waitingForAPIServer",
	}
	// withoutAPI are messages of programs that cannot reach the API server.
	withoutAPI = []string{
		"watchWaits", "leaseNotRenewed", "nodeStatusNotWritten", "annotationNotWritten",
		"eventNotWritten", "statusFailed", "departureNotKnown",
		"Error retrieving lease lock", "error retrieving resource lock", "Failed to update lock", "Failed to watch", "Unexpected error when reading response body",
		"allocator: leader election lost",
	}
)

// spread records the state at the start of a test.
func (w *world) spread() *safetyNet {
	w.t.Helper()
	n := &safetyNet{complaints: lab.book.read(lab), dropped: w.dropped(), routes: w.nodeRoutes(), expected: map[string]bool{}}
	for _, m := range always {
		n.expected[m] = true
	}
	if time.Now().Before(brokenUntil) {
		for _, m := range withoutAPI {
			n.expected[m] = true
		}
	}
	return n
}

// expect names messages of programs of the product that this test allows.
func (w *world) expect(messages ...string) {
	for _, m := range messages {
		w.net.expected[m] = true
		w.net.breaks = w.net.breaks || slices.Contains(withoutAPI, m)
	}
}

// catch makes the checks at the end of a test.
func (w *world) catch() {
	w.t.Helper()
	lab.book.read(lab)
	if w.net.anything || w.net.breaks {
		brokenUntil = time.Now().Add(noticing)
	}
	for _, c := range lab.book.since(w.net.complaints) {
		// An agent that the machine did not run for a second says so, and proves nothing by its probe.
		stalled := strings.Contains(c.Text, "this process stood still")
		if !w.net.anything && !w.net.expected[c.Message] && !stalled {
			w.t.Errorf("there is an unexpected log line: %s", c)
		}
	}
	for node, now := range w.dropped() {
		was := w.net.dropped[node]
		if was.began != now.began {
			was.n = 0
		}
		if now.n > was.n {
			w.t.Errorf("the agent on %s could not read %v packets of other agents, want %v as at the start of the test", node, now.n, was.n)
		}
	}
	w.sameRoutes()
}

// sameRoutes fails the test if the routes of a node have changed since its start.
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

// nodeRoutes returns the routes of the nodes. It leaves out routes of BGP, routes to pods, and routes
// of the interface for remote addresses.
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

// dropped returns the counts of unreadable messages of all agents. It leaves out agents that do not
// answer.
func (w *world) dropped() map[string]dropped {
	w.t.Helper()
	all := map[string]dropped{}
	for _, node := range lab.powered() {
		out, err := w.fetch(node, "127.0.0.1:7472/metrics")
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
