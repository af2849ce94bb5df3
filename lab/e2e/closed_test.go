package e2e

import (
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Promise: a Service address opens the ports of its Services and nothing else of the node.

// closedPorts are ports of a node's own programs: ssh, BGP, the agent, the kubelet and kube-proxy. On the nodes
// of the lab, the last three are open.
var closedPorts = []int{22, 179, 7472, 10250, 10256}

func TestTheNodeBehindItsAddressesIsClosed(t *testing.T) {
	w := newWorld(t)
	w.expect("configProblem") // the chart's LBNodeAgent selects these nodes too
	onHost := strings.Replace(echo("host", 1), "terminationGracePeriodSeconds: 1", "hostNetwork: true\n      terminationGracePeriodSeconds: 1", 1)
	w.apply(echo("web", 3), onHost, service("web", "local"), service("far", "remote"))
	w.apply(selecting("host", service("onhost", "local")), selecting("host", service("onhost-far", "remote")))
	w.apply(selecting("nothing", service("empty", "local")), selecting("nothing", service("empty-far", "remote")))
	w.deploymentReady("host")
	all := map[string][]netip.Addr{}
	for _, name := range []string{"web", "far", "onhost", "onhost-far", "empty", "empty-far"} {
		all[name] = w.addresses(name, families())
	}
	w.everywhere(slices.Concat(all["far"], all["onhost-far"], all["empty-far"])...)
	w.answers(slices.Concat(all["web"], all["far"])...)
	for _, a := range slices.Concat(all["onhost"], all["onhost-far"]) {
		if a.Is4() { // the nodes of the lab have one address each in Kubernetes, and their pods the same
			w.answers(a)
		}
	}

	nodePort := int(w.service("web").Spec.Ports[0].NodePort)
	node, err := lab.Machine("node-1")
	if err != nil {
		t.Fatal(err)
	}
	for _, port := range append([]int{nodePort}, closedPorts[2:]...) {
		w.finds("open", node.NICs[0].V4.Addr(), port)
	}
	for name, addresses := range all {
		for _, a := range addresses {
			for _, port := range closedPorts {
				w.finds("closed", a, port)
			}
			if a.Is4() { // for a family in which Kubernetes knows no address of a node, kube-proxy translates at all addresses
				w.finds("closed", a, nodePort)
			}
			if strings.HasPrefix(name, "empty") {
				w.finds("refused", a, 80)
			}
			if out, err := lab.Exec(w.ctx, "client", "ping", "-c1", "-W5", a.String()); err != nil {
				t.Errorf("ping %s: %v %s", a, err, out)
			}
		}
	}

	w.configure(agentFor("{protectNode: false}", lab.powered()...))
	for _, node := range lab.powered() {
		w.until(patience, "the table has left "+node, func() bool { return !w.guarded(node) })
	}
	for _, a := range slices.Concat(all["web"], all["far"]) {
		w.finds("open", a, 10250)
	}
}

// selecting returns the service with other endpoints.
func selecting(app, service string) string {
	return strings.Replace(service, "selector: {app: web}", "selector: {app: "+app+"}", 1)
}

// guarded reports whether a node has the agent's table.
func (w *world) guarded(node string) bool {
	w.t.Helper()
	out, err := lab.Exec(w.ctx, node, "nft", "list", "tables")
	if err != nil {
		w.t.Fatal(err, out)
	}
	return strings.Contains(out, "table inet purelb")
}

// finds fails the test if the client finds something else at a port: "open", "refused" or "closed", which is
// silent.
func (w *world) finds(want string, a netip.Addr, port int) {
	w.t.Helper()
	limit := "1"
	if want != "closed" {
		limit = "10"
	}
	_, err := lab.Exec(w.ctx, "client", "timeout", limit, "bash", "-c", fmt.Sprintf("exec 3<>/dev/tcp/%s/%d", a, port))
	found := "open"
	if end, ok := errors.AsType[*exec.ExitError](err); ok {
		found = "refused"
		if end.ExitCode() == 124 {
			found = "closed"
		}
	} else if err != nil {
		w.t.Fatal(err)
	}
	if found != want {
		w.t.Errorf("port %d of %s is %s, want %s", port, a, found, want)
	}
}
