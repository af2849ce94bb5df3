package e2e

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/lab/cluster"
)

// ofFirstAPI are objects of the first API, as PureLB up to 0.14 has them.
const ofFirstAPI = `
apiVersion: purelb.io/v1
kind: LBNodeAgent
metadata: {name: a-first, namespace: purelb-system}
spec: {local: {localint: default, extlbint: kube-lb0, sendgarp: true}}
---
apiVersion: purelb.io/v1
kind: ServiceGroup
metadata: {name: e2e-first, namespace: purelb-system}
spec:
  local:
    v4pool: {subnet: 172.30.250.0/24, pool: 172.30.250.191-172.30.250.194, aggregation: default}
    v6pool: {subnet: "2001:db8:1:250::/64", pool: "2001:db8:1:250:e::1-2001:db8:1:250:e::4", aggregation: default}
`

// servedBefore returns a Service as PureLB 0.17 leaves it on a node, or on all nodes if that is "".
func servedBefore(name, group, node string, addresses ...netip.Addr) string {
	notes := []string{"purelb.io/allocated-by: PureLB", "purelb.io/allocated-from: " + group, "purelb.io/pool-type: remote"}
	if node != "" {
		notes[2] = "purelb.io/pool-type: local"
		for _, a := range addresses {
			notes = append(notes, fmt.Sprintf(`purelb.io/announcing-IPv%d: "%s,eth0,%s"`, map[bool]int{true: 4, false: 6}[a.Is4()], node, a))
		}
	}
	return annotated(service(name, group), strings.Join(notes, ", "))
}

// Each node has the new agent before the agent of 0.17 ends there, as with maxSurge.
func TestAnUpgradeFromPureLB017LosesNothing(t *testing.T) {
	m, had, finish := upgradeFrom017(t, true)
	m.joined("node-1")
	m.finish(finish, had, loss{probes: 10, silence: 100 * time.Millisecond})
}

// The agent of 0.17 ends before the new agent starts. Meanwhile another node takes the addresses.
func TestARolloutOverPureLB017IsATakeover(t *testing.T) {
	m, _, finish := upgradeFrom017(t, false)
	m.rest(patience)
	finish()
	m.end(powerLoss)
}

// upgradeFrom017 replaces the agents of 0.17, node by node. It starts the new agent of a node before or after
// the agent of 0.17 ends there. node-1 has the local addresses.
func upgradeFrom017(t *testing.T, surge bool) (m *mover, had map[string][]netip.Addr, stop func()) {
	w := newWorldFor(t, 5*time.Minute)
	w.expect("configProblem", "departed") // the LBNodeAgent of the chart is not in force, and agents say who removes addresses
	p := &troubled{w, buildPlugin(t)}
	resume, start := w.stopAllocator(), w.agentsByLabel()
	w.apply(ofFirstAPI)
	t.Cleanup(func() { w.remove(ofFirstAPI) })
	had = map[string][]netip.Addr{
		"one": {netip.MustParseAddr("172.30.250.171"), netip.MustParseAddr("2001:db8:1:250:b::71")},
		"two": {netip.MustParseAddr("172.30.250.192"), netip.MustParseAddr("2001:db8:1:250:e::2")},
		"far": {netip.MustParseAddr("10.255.1.77"), netip.MustParseAddr("fd00:10:255:1::77")},
	}
	for name, all := range had {
		had[name] = all[:families()]
	}
	w.apply(echo("web", 2, "node-3", "node-4"), servedBefore("one", "local", "node-1", had["one"]...),
		servedBefore("two", "e2e-first", "node-1", had["two"]...), servedBefore("far", "remote", "", had["far"]...))
	old := map[string]*agent017{}
	for _, n := range lab.Nodes() {
		var local []netip.Addr
		if n.Name == "node-1" {
			local = slices.Concat(had["one"], had["two"])
		}
		old[n.Name] = w.agent017(n, local, had["far"])
	}
	for name, addresses := range had {
		w.shows(name, addresses...)
	}
	w.steady()
	m, stop = w.move("one", "two")

	objects, err := lab.Exec(w.ctx, cluster.ControlPlane, "kubectl", "get", "servicegroups,lbnodeagents", "-A", "-o", "yaml")
	file := filepath.Join(t.TempDir(), "purelb-0.17.yaml")
	if err != nil || os.WriteFile(file, []byte(objects), 0o600) != nil {
		t.Fatalf("save the objects: %v", err)
	}
	p.succeed("validate -f " + file)
	resume()
	w.servesOurs("fresh")
	for _, node := range []string{"node-2", "node-4", "node-1", "node-3"} {
		if !surge {
			old[node].end()
		}
		start(node)
		if surge {
			if node == "node-1" {
				m.joined(node)
			}
			old[node].end()
		}
	}
	for _, a := range had["far"] {
		w.until(patience, "all nodes have "+a.String(), func() bool { return len(w.holders(a)) == len(lab.Nodes()) })
	}
	t.Log(p.asks("status").all)
	return m, had, stop
}
