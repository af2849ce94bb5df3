package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"purelb.io/purelb/lab/cluster"
	"purelb.io/purelb/lab/product"
)

// Promise: nodes announce in the networks that the wire has, also if no node has an address with that
// network.

// agentFor returns an LBNodeAgent for some nodes.
func agentFor(local string, nodes ...string) string {
	return fmt.Sprintf("apiVersion: purelb.io/v2\nkind: LBNodeAgent\nmetadata: {name: networks, namespace: %s}\n"+
		"spec: {nodeSelector: {matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [%s]}]}, local: %s}\n",
		product.Namespace, strings.Join(nodes, ", "), local)
}

// configure applies an LBNodeAgent until the test ends.
func (w *world) configure(document string) {
	w.t.Helper()
	w.t.Cleanup(func() { w.remove(document) })
	w.apply(document)
}

// shell runs a script on a machine, and undo on it when the test ends.
func (w *world) shell(machine, script, undo string) {
	w.t.Helper()
	w.t.Cleanup(func() { w.exec(machine, undo) })
	w.exec(machine, script)
}

// exec runs a script of the shell on a machine.
func (w *world) exec(machine, script string) {
	w.t.Helper()
	if out, err := lab.Exec(w.ctx, machine, "sh", "-ec", script); err != nil {
		w.t.Errorf("%s on %s: %v %s", script, machine, err, out)
	}
}

// only makes the agents of other nodes of the first segment give their addresses away, until the test ends.
func (w *world) only(node string) {
	w.t.Helper()
	w.exclude(slices.DeleteFunc([]string{"node-1", "node-2", "node-4"}, func(other string) bool { return other == node })...)
}

// goesTo waits until one node alone has each of the addresses, which is one of nodes.
func (w *world) goesTo(nodes []string, addresses ...netip.Addr) {
	w.t.Helper()
	for _, a := range addresses {
		w.until(patience, fmt.Sprintf("one of %v has %s", nodes, a), func() bool {
			has := w.holderNodes(a)
			return len(has) == 1 && slices.Contains(nodes, has[0])
		})
	}
}

func TestAFurtherNetworkOfTheSegmentIsServed(t *testing.T) {
	w := newWorld(t)
	w.expect("configProblem") // the chart's LBNodeAgent selects these nodes too
	w.shell(cluster.Router, "ip addr add 203.0.113.1/28 dev eth0; ip addr add 2001:db8:7::1/64 dev eth0 nodad; sysctl -qw net.ipv4.conf.eth0.rp_filter=1",
		"ip addr del 203.0.113.1/28 dev eth0; ip addr del 2001:db8:7::1/64 dev eth0; sysctl -qw net.ipv4.conf.eth0.rp_filter=0")
	nodes := []string{"node-1", "node-2"} // of others the first interface is on another segment
	w.configure(agentFor(`{networks: [203.0.113.0/28, "2001:db8:7::/64"]}`, nodes...))
	w.group("provider", `{local: {v4pools: [{subnet: 203.0.113.0/28, pool: 203.0.113.4-203.0.113.12}], v6pools: [{subnet: "2001:db8:7::/64", pool: "2001:db8:7::4-2001:db8:7::c"}]}}`)
	w.apply(echo("web", 3), service("web", "provider"))
	addresses := w.addresses("web", families())
	w.goesTo(nodes, addresses...)
	w.answers(addresses...)
	w.only("node-2")
	w.goesTo([]string{"node-2"}, addresses...)
	w.answers(addresses...)
}

// single replaces the network of a node's addresses by routes without a gateway, until the test ends.
// With an address that is deleted, connections from it to the API server end.
func (w *world) single(node string) {
	w.t.Helper()
	w.expect(withoutAPI...)
	m, err := lab.Machine(node)
	if err != nil {
		w.t.Fatal(err)
	}
	n := m.NICs[0]
	v4, v6, link := n.V4, n.V6, n.Carrier()
	networks := func(mask4, mask6 int, gone4, gone6 netip.Prefix) string {
		return fmt.Sprintf("ip addr add %[1]s/%[2]d dev %[5]s; ip addr del %[3]s dev %[5]s; ip addr del %[4]s dev %[5]s; ip addr add %[6]s/%[7]d dev %[5]s nodad; ",
			v4.Addr(), mask4, gone4, gone6, link, v6.Addr(), mask6)
	}
	routes := fmt.Sprintf("ip route replace %s dev %s; ip -6 route replace %s dev %s proto ra; ", v4.Masked(), link, v6.Masked(), link)
	w.shell(node, networks(32, 128, v4, v6)+routes,
		fmt.Sprintf("ip route del %s dev %s proto boot; ip -6 route del %s dev %s proto ra; ", v4.Masked(), link, v6.Masked(), link)+
			networks(v4.Bits(), v6.Bits(), host(v4.Addr()), host(v6.Addr())))
}

func TestANodeWithSingleAddressesAnnouncesInTheNetworksOfItsRoutes(t *testing.T) {
	w := newWorld(t)
	w.single("node-1")
	w.only("node-1")
	w.apply(echo("web", 3), service("web", "local"))
	addresses := w.addresses("web", families())
	w.goesTo([]string{"node-1"}, addresses...)
	w.answers(addresses...)
	out, err := lab.Exec(w.ctx, "node-1", "ip", "route", "get", "198.51.100.1")
	if err != nil || !strings.Contains(out, "src 172.30.250.101 ") {
		t.Errorf("the source of the node's own connections: %v %s", err, out)
	}
}
