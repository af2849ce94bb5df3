package e2e

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/lab/internal/topology"
)

// Promise: the speakers take the sessions of MetalLB over, node by node. With graceful restart, no route of
// the router changes.

// metalLBPeers are MetalLB's objects for the routers of the lab and for the addresses of a pool.
const metalLBPeers = `
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: e2e-moved, namespace: metallb-system}
spec: {addresses: [10.255.2.0/28, "fd00:10:255:2::/124"]}
---
apiVersion: metallb.io/v1beta1
kind: BGPAdvertisement
metadata: {name: e2e-moved, namespace: metallb-system}
spec: {ipAddressPools: [e2e-moved]}
---
apiVersion: metallb.io/v1beta2
kind: BGPPeer
metadata: {name: router-a, namespace: metallb-system}
spec: {myASN: 64515, peerASN: 64514, peerAddress: 172.30.250.1, holdTime: 9s, keepaliveTime: 3s, enableGracefulRestart: GRACEFUL,
  dualStackAddressFamily: true, nodeSelectors: [{matchLabels: {topology.kubernetes.io/zone: brA}}]}
---
apiVersion: metallb.io/v1beta2
kind: BGPPeer
metadata: {name: router-b, namespace: metallb-system}
spec: {myASN: 64515, peerASN: 64514, peerAddress: 172.30.251.1, holdTime: 9s, keepaliveTime: 3s, enableGracefulRestart: GRACEFUL,
  dualStackAddressFamily: true, nodeSelectors: [{matchLabels: {topology.kubernetes.io/zone: brB}}]}
`

// frr runs bgpd on a node as a speaker of MetalLB does, until the test calls stop: it accepts no connections.
// It does not know the interfaces of the node, and so it cannot speak IPv6. Beside the lines of MetalLB's templates
// it has "bgp graceful-restart" for all neighbors.
func (w *world) frr(node topology.Machine, graceful bool, address netip.Addr) (stop func()) {
	w.t.Helper()
	peer := w.routerBeside(node).V4.Addr()
	config := fmt.Sprintf(`frr defaults traditional
route-map out permit 1
exit
route-map in deny 1
exit
router bgp 64515
 bgp router-id %[2]s
 no bgp ebgp-requires-policy
 no bgp network import-check
 no bgp default ipv4-unicast
 bgp graceful-restart preserve-fw-state
 neighbor %[1]s remote-as 64514
 neighbor %[1]s timers 3 9
`, peer, node.V4())
	if graceful {
		config += fmt.Sprintf(" bgp graceful-restart\n neighbor %s graceful-restart\n", peer)
	}
	config += fmt.Sprintf(` address-family ipv4 unicast
  neighbor %[1]s activate
  neighbor %[1]s route-map in in
  neighbor %[1]s route-map out out
  network %[2]s
 exit-address-family
`, peer, host(address))
	const folder = "/run/frr"
	if out, err := lab.Exec(w.ctx, node.Name, "sh", "-ec", "mkdir -p "+folder+" && chown frr:frr "+folder); err != nil {
		w.t.Fatalf("prepare FRR on %s: %v %s", node.Name, err, out)
	}
	return w.daemon(node.Name, folder+"/bgpd.conf", config, "/usr/lib/frr/bgpd", "-Z", "-A", "127.0.0.1", "-p", "0", "-f", folder+"/bgpd.conf")
}

func TestServicesMoveInFromMetalLBWithGracefulRestart(t *testing.T) {
	f, addresses := moveInFromMetalLBSpeakers(t, true)
	f.nothing(addresses...)
}

func TestServicesMoveInFromMetalLBWithoutGracefulRestart(t *testing.T) {
	f, addresses := moveInFromMetalLBSpeakers(t, false)
	t.Logf("%d route events", len(f.events(hosts(addresses)...)))
}

// moveInFromMetalLBSpeakers fails the test if a client loses something. It returns what happened to the routes.
func moveInFromMetalLBSpeakers(t *testing.T, graceful bool) (f followed, addresses []netip.Addr) {
	w := newWorldFor(t, 5*time.Minute)
	w.expect("configProblem") // SessionTaken
	p := &troubled{w, buildPlugin(t)}
	objects := filepath.Join(t.TempDir(), "metallb.yaml")
	if err := os.WriteFile(objects, []byte(strings.ReplaceAll(metalLBPeers, "GRACEFUL", fmt.Sprint(graceful))), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.unpeer()
		w.apply(peering(withBFD))
		w.sessions()
	})
	w.unpeer()
	resume := w.stopAllocator()
	addresses = []netip.Addr{netip.MustParseAddr("10.255.2.7")}
	w.apply(echo("web", 1, "node-1"), strings.Replace(annotated(service("web", "e2e-moved"), "metallb.io/ip-allocated-from-pool: e2e-moved"),
		string(familyPolicy()), "SingleStack", 1))
	w.shows("web", addresses...)
	speakers := map[string]func(){}
	for _, n := range lab.Nodes() {
		speakers[n.Name] = w.frr(n, graceful, addresses[0])
	}
	w.everywhere(addresses...)
	w.answers(addresses...)
	f = w.followRoutes()
	clients, visitors := w.spray(addresses), w.visitors(addresses...)

	translated := p.succeed("import metallb -f " + objects)
	t.Cleanup(func() { w.remove(translated) })
	w.apply(translated)
	for _, n := range nodeNames() {
		w.configured(n, "False", "another program on this node has a BGP session")
	}
	resume()
	p.follow("metallb.md", "kubectl purelb adopt -A --from metallb --dry-run")
	p.follow("metallb.md", "kubectl purelb adopt -A --from metallb")
	for _, a := range addresses {
		w.until(patience, "all nodes have "+a.String(), func() bool { return len(w.holders(a)) == len(lab.Nodes()) })
	}
	for _, n := range nodeNames() {
		had := w.told()[n].Established
		speakers[n]()
		w.until(2*patience, "the router has a session with the speaker of "+n, func() bool {
			s := w.told()[n]
			return s.State == "Established" && s.Established > had // without graceful restart, nobody sends End-of-RIB
		})
		w.configured(n, "True", "")
	}
	w.everywhere(addresses...)
	time.Sleep(3 * time.Second) // a late loss counts too
	visitors.lost("moving in from MetalLB's speakers", mostReset)
	lost, sent := clients.lost()
	t.Logf("%d of %d datagrams have no answer", lost, sent)
	if lost > 0 {
		t.Error("clients lost datagrams")
	}
	return f, addresses
}
