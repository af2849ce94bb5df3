package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"purelb.io/purelb/lab/cluster"
	"purelb.io/purelb/lab/internal/topology"
	"purelb.io/purelb/lab/router"
)

// The ways in which nodes peer with the router. Each is a line of the peer group.
const (
	// withBFD asks for BFD with three packets 300 ms apart.
	withBFD = "bfd: {}"
	// withFastBFD asks for BFD with three packets 100 ms apart.
	withFastBFD = "bfd: {minReceiveIntervalMilliseconds: 100, minTransmitIntervalMilliseconds: 100}"
	// withoutBFD asks for no BFD. A session ends 9 s after the last message, because that is the hold
	// time of the router.
	withoutBFD = "timers: {config: {holdTime: 9}}"
)

// peering returns the BGPConfiguration of the tests: each node peers with the router of its
// own segment.
func peering(how string) string {
	return fmt.Sprintf(`
apiVersion: bgp.purelb.io/v1
kind: BGPConfiguration
metadata: {name: default, namespace: purelb-system}
spec:
  global: {asn: 64515, gracefulRestart: {enabled: true, restartTime: 60, deferralTime: 2}}
  peerGroups:
  - config: {peerGroupName: router, peerAsn: 64514}
    %s
  neighbors:
  - config: {neighborAddress: 172.30.250.1, peerGroup: router}
    nodeSelector: {matchLabels: {topology.kubernetes.io/zone: brA}}
  - config: {neighborAddress: 172.30.251.1, peerGroup: router}
    nodeSelector: {matchLabels: {topology.kubernetes.io/zone: brB}}
`, how)
}

// peer changes the settings of the sessions until the test ends. It waits until all nodes use them. Where
// the nodes have no BFD, the router has none either: FRR 10 has no session with a neighbor whose BFD is down.
func (w *world) peer(how string) {
	w.t.Helper()
	if how == withoutBFD {
		w.t.Cleanup(w.routerWithoutBFD())
	}
	w.apply(peering(how))
	if how != withBFD { // as each test finds them; a test may end without the definition of BGPConfiguration
		w.t.Cleanup(func() { w.apply(peering(withBFD)) })
	}
	w.sessions()
}

// routerWithoutBFD makes the router do without BFD until undo.
func (w *world) routerWithoutBFD() (undo func()) {
	w.t.Helper()
	vtysh := func(lines ...string) {
		argv := []string{"vtysh", "-c", "configure terminal", "-c", "router bgp 64514"}
		for _, l := range lines {
			argv = append(argv, "-c", l)
		}
		if _, err := lab.Exec(context.WithoutCancel(w.ctx), cluster.Router, argv...); err != nil {
			w.t.Error(err)
		}
	}
	vtysh("no neighbor NODES bfd profile NODES", "no neighbor NODES bfd")
	return func() { vtysh("neighbor NODES bfd", "neighbor NODES bfd profile NODES") }
}

// session is the router's view of its session with a node.
type session struct {
	State       string `json:"bgpState"`
	Established int    `json:"connectionsEstablished"`
	// Read and Written are the ages of the last message of each side, in milliseconds.
	Read     int64 `json:"bgpTimerLastRead"`
	Written  int64 `json:"bgpTimerLastWrite"`
	EndOfRIB struct {
		Received map[string]bool `json:"endOfRibRecv"`
	} `json:"gracefulRestartInfo"`
	BFD struct {
		Status string `json:"status"`
	} `json:"peerBfdInfo"`
}

// up reports whether the session is Established and the node has announced all of its routes.
func (s session) up() bool {
	return s.State == "Established" && s.EndOfRIB.Received["ipv4Unicast"] && s.EndOfRIB.Received["ipv6Unicast"]
}

// told returns the sessions of the router over IPv4, by the names of the nodes.
func (w *world) told() map[string]session {
	w.t.Helper()
	return w.toldTo(topology.Machine.V4)
}

// toldTo returns the sessions of the router with these addresses of the nodes, by the names of the
// nodes.
func (w *world) toldTo(address func(topology.Machine) netip.Addr) map[string]session {
	w.t.Helper()
	out, err := lab.Exec(w.ctx, cluster.Router, "vtysh", "-c", "show bgp neighbors json")
	if err != nil {
		w.t.Fatal(err)
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		w.t.Fatalf("the router's neighbors: %v in\n%s", err, out)
	}
	sessions := map[string]session{}
	for _, n := range lab.Nodes() {
		var s session
		if err := json.Unmarshal(all[address(n).String()], &s); err != nil {
			w.t.Fatalf("the router's session with %s: %v in\n%s", n.Name, err, out)
		}
		sessions[n.Name] = s
	}
	return sessions
}

// sessions waits until the router has a session with every node with power. It also waits for BFD if
// that is configured.
func (w *world) sessions() {
	w.t.Helper()
	w.until(2*patience, "the router has a session with every node", func() bool {
		told := w.told()
		return !slices.ContainsFunc(lab.powered(), func(n string) bool { return !told[n].up() })
	})
}

// again waits until the router has a new session with a node in place of had.
func (w *world) again(node string, had session) {
	w.t.Helper()
	w.until(2*patience, "the router has a new session with "+node, func() bool {
		s := w.told()[node]
		return s.up() && s.Established > had.Established
	})
}

// detects waits until BFD is up between the router and every node with power.
func (w *world) detects() {
	w.t.Helper()
	w.until(2*patience, "BFD is up with every node", func() bool {
		told := w.told()
		return !slices.ContainsFunc(lab.powered(), func(n string) bool { return told[n].BFD.Status != "Up" })
	})
}

// followed records what happens to the router's routes.
type followed struct {
	*world
	watch *router.Watch[router.Event]
}

func (w *world) followRoutes() followed {
	w.t.Helper()
	watch, err := router.Follow(lab.Netns(cluster.Router))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(watch.Stop)
	return followed{w, watch}
}

// events returns the events of the routes to some prefixes.
func (f followed) events(prefixes ...netip.Prefix) []router.Event {
	f.t.Helper()
	all, err := f.watch.Seen()
	if err != nil {
		f.t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(e router.Event) bool { return !slices.Contains(prefixes, e.Route.Prefix) })
}

// nothing fails the test if a route to one of the addresses changed.
func (f followed) nothing(addresses ...netip.Addr) {
	f.t.Helper()
	for _, e := range f.events(hosts(addresses)...) {
		f.t.Errorf("the router's route changed: %s", e)
	}
}

// without returns the time at which the router last sent to an address through a next hop.
func (f followed) without(a, hop netip.Addr) (time.Time, bool) {
	f.t.Helper()
	for _, e := range f.events(host(a)) {
		if e.Gone || !slices.Contains(e.Route.Via, hop) {
			return e.At, true
		}
	}
	return time.Time{}, false
}

// everywhere waits until the router sends to each address through every node.
func (w *world) everywhere(addresses ...netip.Addr) {
	w.t.Helper()
	for _, a := range addresses {
		w.until(2*patience, "the router reaches "+a.String()+" by way of every node", func() bool {
			return equal(w.nextHops(host(a)), nodeNames())
		})
	}
}

// routerBeside returns the interface of the router on the segment of a machine.
func (w *world) routerBeside(m topology.Machine) topology.NIC {
	w.t.Helper()
	r, err := lab.Machine(cluster.Router)
	if err != nil {
		w.t.Fatal(err)
	}
	return r.NICs[slices.IndexFunc(r.NICs, func(nic topology.NIC) bool { return nic.Segment == m.NICs[0].Segment })]
}

func hosts(addresses []netip.Addr) []netip.Prefix {
	var out []netip.Prefix
	for _, a := range addresses {
		out = append(out, host(a))
	}
	return out
}

func nodeNames() []string {
	var names []string
	for _, n := range lab.Nodes() {
		names = append(names, n.Name)
	}
	return names
}

// hop returns the next hop, of the family of a, by which the router reaches a node.
func hop(w *world, node string, a netip.Addr) netip.Addr {
	w.t.Helper()
	m, err := lab.Machine(node)
	if err != nil {
		w.t.Fatal(err)
	}
	if a.Is4() {
		return m.V4()
	}
	return m.V6()
}

// nodeStatus returns the BGPNodeStatus of a node, or nil.
func (w *world) nodeStatus(node string) map[string]any {
	w.t.Helper()
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: "bgp.purelb.io", Version: "v1", Kind: "BGPNodeStatus"})
	if err := w.Get(w.ctx, client.ObjectKey{Name: node}, o); err != nil {
		return nil
	}
	status, _, _ := unstructured.NestedMap(o.Object, "status")
	return status
}

// neighborOf returns the first neighbor in the BGPNodeStatus of a node, as neighborsIn does.
func (w *world) neighborOf(node string) string {
	for _, n := range neighborsIn(w.nodeStatus(node)) {
		return n
	}
	return ""
}

// neighborsIn returns the neighbors in the status of a node, as "address state bfd".
func neighborsIn(status map[string]any) (all []string) {
	neighbors, _, _ := unstructured.NestedSlice(status, "neighbors")
	for _, o := range neighbors {
		n, _ := o.(map[string]any)
		line := fmt.Sprintf("%v %v", n["address"], n["state"])
		if bfd, ok := n["bfd"]; ok {
			line += fmt.Sprintf(" %v", bfd)
		}
		all = append(all, line)
	}
	return all
}
