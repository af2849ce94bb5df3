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

// Each node has the new agent before the agent of 0.17 ends there. The second command ends this way of rolling out.
func TestAnUpgradeFromPureLB017LosesNothing(t *testing.T) {
	m, had, finish := upgradeFrom017(t,
		"helm upgrade purelb CHART --namespace purelb-system --reset-then-reuse-values --wait --set lbnodeagent.port=7480,lbnodeagent.updateStrategy.rollingUpdate.maxSurge=1,lbnodeagent.updateStrategy.rollingUpdate.maxUnavailable=0",
		"helm upgrade purelb CHART --namespace purelb-system --reset-then-reuse-values --wait --set lbnodeagent.port=7472,lbnodeagent.updateStrategy.rollingUpdate.maxSurge=0,lbnodeagent.updateStrategy.rollingUpdate.maxUnavailable=1")
	m.joined("node-1")
	m.finish(finish, had, loss{probes: 10, silence: 100 * time.Millisecond})
}

// The agent of 0.17 ends before the new agent starts. Meanwhile another node takes the addresses.
func TestARolloutOverPureLB017IsATakeover(t *testing.T) {
	m, _, finish := upgradeFrom017(t, "helm upgrade purelb CHART --namespace purelb-system --reset-then-reuse-values --wait")
	m.rest(patience)
	finish()
	m.end(powerLoss)
}

// upgradeFrom017 follows the page, which upgrades by these commands. The test plays the agents of 0.17. That
// of node-1 has the local addresses.
func upgradeFrom017(t *testing.T, commands ...string) (m *mover, had map[string][]netip.Addr, stop func()) {
	w := newWorldFor(t, 5*time.Minute)
	w.expect("configProblem", "departed") // the LBNodeAgent of the chart is not in force, and agents say who removes addresses
	p := &troubled{w, buildPlugin(t)}
	const page = "purelb-0.17.md"
	w.stopAllocator()
	w.playAgents017()
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
	var old []*agent017
	for _, n := range lab.Nodes() {
		var local []netip.Addr
		if n.Name == "node-1" {
			local = slices.Concat(had["one"], had["two"])
		}
		old = append(old, w.agent017(n, local, had["far"]))
	}
	for name, addresses := range had {
		w.shows(name, addresses...)
	}
	w.steady()
	m, stop = w.move("one", "two")

	p.follow(page, "kubectl get servicegroups,lbnodeagents -A -o yaml > purelb-0.17.yaml")
	p.follow(page, "helm get values purelb --namespace purelb-system > values-0.17.yaml")
	p.follow(page, "kubectl purelb validate -f purelb-0.17.yaml")
	p.definitions()
	p.follow(page, "kubectl apply --server-side --force-conflicts -f crds.yaml")
	revision := p.revision()
	ended := w.endWithPods(old)
	for _, command := range commands {
		p.follow(page, command)
	}
	ended()
	p.follow(page, "kubectl purelb status --wait --timeout 5m")
	w.servesOurs("fresh")
	for _, a := range had["far"] {
		w.until(patience, "all nodes have "+a.String(), func() bool { return len(w.holders(a)) == len(lab.Nodes()) })
	}
	p.follow(page, "helm rollback purelb REVISION --namespace purelb-system --wait", "REVISION", revision)
	return m, had, stop
}

// definitions writes the custom resource definitions of this tree as a release has them.
func (w *troubled) definitions() {
	w.t.Helper()
	files, err := filepath.Glob(filepath.Join(lab.tree.Root, "charts/purelb/crds/*.yaml"))
	if err != nil || len(files) == 0 {
		w.t.Fatalf("the chart has no definitions: %v", err)
	}
	var all []byte
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(append(all, "\n---\n"...), text...)
	}
	if err := os.WriteFile(filepath.Join(w.folder(), "crds.yaml"), all, 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// revision returns the revision of the release of Helm in the cluster.
func (w *troubled) revision() string {
	w.t.Helper()
	lines := strings.Fields(w.follow("purelb-0.17.md", "helm history purelb --namespace purelb-system", "helm history", "helm history --max 1 --output yaml"))
	return lines[slices.Index(lines, "revision:")+1]
}
