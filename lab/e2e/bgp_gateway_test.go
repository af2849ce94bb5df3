package e2e

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"purelb.io/purelb/lab/internal/topology"
	"purelb.io/purelb/lab/product"
)

// Promise: a node peers with its default gateway. The session goes on if the default route changes or
// is removed and the gateway stays.

func TestNodesPeerWithTheirDefaultGateway(t *testing.T) {
	w := newWorld(t)
	w.expect("configProblem")
	w.peerWithGateways()
	addresses := w.remote()
	for _, n := range nodeNames() {
		w.neighborsAre(w.speakerStatus, n, w.gatewaySessions(n)...)
	}

	const node = "node-3"
	f := w.followRoutes()
	for _, family := range gatewayFamilies() {
		had, route := w.toldTo(family.address)[node], w.defaultRoute(node, family)
		route.otherMetric()
		route.remove()
		w.configured(node, "False", fmt.Sprintf("this node has lost its default route of %s, so the last known gateway %s stays the neighbor", family.word, route.gateway))
		w.answers(addresses...)
		route.restore()
		w.configured(node, "True", "")
		if has := w.toldTo(family.address)[node]; has.State != "Established" || has.Established != had.Established {
			t.Errorf("the session of %s with %s is %s, and was Established %d times, want %d", node, route.gateway, has.State, has.Established, had.Established)
		}
	}
	f.nothing(addresses...)

	family := gatewayFamilies()[0]
	route := w.defaultRoute(node, family)
	route.otherMetric()
	route.remove()
	w.restartAgent(node) // and its speaker; a kubelet starts killed ones later each time
	w.neighborsAre(w.nodeStatus, node, append(w.gatewaySessions(node)[1:], "gateway "+family.word+" Idle")...)
	w.configured(node, "False", "this node has no default route of "+family.word)
	route.restore()
	w.everywhere(addresses...)
	w.neighborsAre(w.speakerStatus, node, w.gatewaySessions(node)...)
}

// gatewayFamily is a family of addresses.
type gatewayFamily struct {
	word    string    // for neighborGateway
	flag    string    // for ip
	halves  [2]string // all addresses
	router  func(topology.NIC) netip.Addr
	address func(topology.Machine) netip.Addr
}

// gatewayFamilies returns the families of the world.
func gatewayFamilies() (all []gatewayFamily) {
	families := map[topology.Family]gatewayFamily{
		topology.IPv4: {"ipv4", "-4", [2]string{"0.0.0.0/1", "128.0.0.0/1"}, func(n topology.NIC) netip.Addr { return n.V4.Addr() }, topology.Machine.V4},
		topology.IPv6: {"ipv6", "-6", [2]string{"::/1", "8000::/1"}, func(n topology.NIC) netip.Addr { return n.V6.Addr() }, topology.Machine.V6},
	}
	for _, f := range lab.World().Families {
		all = append(all, families[f])
	}
	return all
}

// peerWithGateways makes each node peer with its default gateways until the test ends.
func (w *world) peerWithGateways() {
	w.t.Helper()
	config := `
apiVersion: bgp.purelb.io/v1
kind: BGPConfiguration
metadata: {name: default, namespace: purelb-system}
spec:
  global: {asn: 64515, gracefulRestart: {enabled: true, restartTime: 60, deferralTime: 2}}
  neighbors:
`
	for _, f := range gatewayFamilies() {
		config += fmt.Sprintf("  - {config: {neighborGateway: %[1]s, peerAsn: external}, afiSafis: [{family: %[1]s-unicast}], bfd: {}}\n", f.word)
	}
	w.t.Cleanup(func() {
		w.unpeer()
		w.apply(peering(withBFD))
		w.sessions()
	})
	w.unpeer()
	w.apply(config)
}

// unpeer deletes the BGPConfiguration and waits until the router has no session. If the sessions
// existed, nodes would wait for up to half a minute before they use another configuration.
func (w *world) unpeer() {
	w.t.Helper()
	kubectl(w, "delete", "configs.bgp.purelb.io", "default", "--namespace", product.Namespace, "--ignore-not-found", "--timeout=1m")
	w.until(patience, "the router has no session", func() bool {
		for _, address := range []func(topology.Machine) netip.Addr{topology.Machine.V4, topology.Machine.V6} {
			for _, s := range w.toldTo(address) {
				if s.State == "Established" {
					return false
				}
			}
		}
		return true
	})
}

// gatewaySessions returns what neighborsIn returns for a node that has a session with its default
// gateway of each family.
func (w *world) gatewaySessions(node string) (all []string) {
	w.t.Helper()
	m, err := lab.Machine(node)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range gatewayFamilies() {
		all = append(all, f.router(w.routerBeside(m)).String()+" Established Up")
	}
	return all
}

// neighborsAre waits until the neighbors in a status of a node are these.
func (w *world) neighborsAre(status func(node string) map[string]any, node string, want ...string) {
	w.t.Helper()
	slices.Sort(want)
	w.until(patience, fmt.Sprintf("the neighbors of %s are %v", node, want), func() bool {
		return equal(slices.Sorted(slices.Values(neighborsIn(status(node)))), want)
	})
}

// speakerStatus returns what the speaker of a node has as its status, or nil. It becomes a
// BGPNodeStatus later, after up to 16 s if it changes again and again.
func (w *world) speakerStatus(node string) map[string]any {
	var state struct {
		Status map[string]any `json:"status"`
	}
	out, err := w.fetch(node, "127.0.0.1:7473/state")
	if err != nil || json.Unmarshal([]byte(out), &state) != nil {
		return nil
	}
	return state.Status
}

// configured waits until the condition Configured of a node has this status, and a message with this
// text.
func (w *world) configured(node, status, message string) {
	w.t.Helper()
	w.until(patience, fmt.Sprintf("the condition Configured of %s is %s %q", node, status, message), func() bool {
		conditions, _, _ := unstructured.NestedSlice(w.speakerStatus(node), "conditions")
		return slices.ContainsFunc(conditions, func(o any) bool {
			c, _ := o.(map[string]any)
			return c["type"] == "Configured" && c["status"] == status && strings.Contains(fmt.Sprint(c["message"]), message)
		})
	})
}

// defaultRoute is the default route of a node.
type defaultRoute struct {
	*world
	node    string
	family  gatewayFamily
	line    string // as ip prints it
	via     string // the words of ip for its next hop
	gateway string
}

// defaultRoute reads the default route of a node. At the end of the test, the node has the same
// routes again.
func (w *world) defaultRoute(node string, f gatewayFamily) defaultRoute {
	w.t.Helper()
	d := defaultRoute{world: w, node: node, family: f}
	d.line = strings.TrimSpace(d.ip("show default"))
	words := strings.Fields(d.line)
	if len(words) < 5 || words[1] != "via" || words[3] != "dev" || strings.Contains(d.line, "\n") {
		w.t.Fatalf("the default routes of %s are %q, want one with one next hop", node, d.line)
	}
	d.via, d.gateway = strings.Join(words[1:5], " "), words[2]
	w.t.Cleanup(d.restore)
	return d
}

// ip runs a command of `ip route` on the node.
func (d defaultRoute) ip(command string) (out string) {
	d.t.Helper()
	out, err := lab.Exec(d.ctx, d.node, append([]string{"ip", d.family.flag, "route"}, strings.Fields(command)...)...)
	if err != nil {
		d.t.Fatalf("ip route %s on %s: %v %s", command, d.node, err, out)
	}
	return out
}

// otherMetric gives the route another metric.
func (d defaultRoute) otherMetric() {
	d.t.Helper()
	d.ip("add default " + d.via + " metric 50")
	d.ip("delete " + d.line)
}

// remove removes the route that otherMetric made. Routes to both halves of all addresses replace it,
// so that the API server and the pods of other nodes stay in reach.
func (d defaultRoute) remove() {
	d.t.Helper()
	for _, half := range d.family.halves {
		d.ip("add " + half + " " + d.via)
	}
	d.ip("delete default " + d.via + " metric 50")
}

// restore brings back the first route, and removes the others.
func (d defaultRoute) restore() {
	d.t.Helper()
	d.ip("replace " + d.line)
	for _, other := range append(d.family.halves[:], "default metric 50") {
		if d.ip("show exact "+other) != "" {
			d.ip("delete " + other)
		}
	}
}
