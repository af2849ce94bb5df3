//go:build alerts

package e2e

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"purelb.io/purelb/lab/backend"
	"purelb.io/purelb/lab/cluster"
	"purelb.io/purelb/lab/probe"
	"purelb.io/purelb/lab/product"
)

// Promise: every alert of the chart fires with its fault, and no alert fires in a healthy cluster. A
// real Prometheus scrapes all programs. It has the rules of the chart with shorter times.

func TestAlertsFire(t *testing.T) {
	w := newWorldFor(t, 15*time.Minute)
	w.net.anything = true
	s := &alertScene{world: w}
	s.netbox = s.startNetBox("20ms")
	s.healthy()
	for _, node := range nodeNames() {
		w.agentReady(node)
	}
	s.alarms = w.alarms()
	s.scraped()
	s.quiet()

	s.noLeader()
	s.standing()
	s.bgp()
	s.segment()
	s.cutOff()
	s.fire("PureLBIPAMOrphans")
	s.ipam()
	s.fire("PureLBVersionSkew", "PureLBPoolExhaustedSoon", "PureLBAddressesQuarantined", "PureLBAgentFailing")
	s.dashboards()
	s.noAgents()

	s.heal()
	s.silent()
	s.quiet()
	s.complete()
	s.document()
}

// alertScene is the cluster in which alerts fire.
type alertScene struct {
	world *world
	*alarms
	netbox *backend.NetBox
	// undo has the functions that end the standing faults.
	undo []func()
}

// later adds undo to the functions that heal the cluster.
func (s *alertScene) later(undo func()) { s.undo = append(s.undo, s.world.undoable(undo)) }

func (s *alertScene) heal() {
	w := s.world
	w.t.Helper()
	var services corev1.ServiceList
	if err := w.List(w.ctx, &services, client.InNamespace(namespace)); err != nil {
		w.t.Error(err)
	}
	for i := range services.Items {
		if name := services.Items[i].Name; name != "near" && name != "far" {
			if err := client.IgnoreNotFound(w.Delete(w.ctx, &services.Items[i])); err != nil {
				w.t.Error(err)
			}
		}
	}
	for _, undo := range slices.Backward(s.undo) {
		undo()
	}
}

// alertGroup is a ServiceGroup of alertScene.
func alertGroup(name, namespace, spec string) string {
	return fmt.Sprintf(`
apiVersion: purelb.io/v2
kind: ServiceGroup
metadata: {name: alert-%s, namespace: %s}
spec: %s
`, name, namespace, spec)
}

// inAlertGroup is a Service with an IPv4 address of a group of alertScene.
func inAlertGroup(name, group string, spec ...string) string {
	return plain(name, 80, "purelb.io/service-group: alert-"+group, append([]string{"ipFamilyPolicy: SingleStack", "ipFamilies: [IPv4]"}, spec...)...)
}

// group makes a ServiceGroup, which exists until the cluster is healed.
func (s *alertScene) group(name, namespace, spec string) {
	s.world.t.Helper()
	text := alertGroup(name, namespace, spec)
	s.world.apply(text)
	s.later(func() { s.world.remove(text) })
}

// netboxPort is the port of NetBox on the machine of the client.
const netboxPort = 8014

// startNetBox ends a running NetBox and starts one whose requests take the time latency.
func (s *alertScene) startNetBox(latency string) *backend.NetBox {
	s.world.t.Helper()
	n, err := backend.StartNetBox(s.world.ctx, lab.Cluster, lab.tree.Root, netboxPort, false, "-latency="+latency, "-range=10.255.40.1-10.255.40.254/24")
	if err != nil {
		s.world.t.Fatal(err)
	}
	return n
}

// healthy makes Services of all kinds and waits until no alert fires.
func (s *alertScene) healthy() {
	w := s.world
	w.t.Cleanup(func() {
		if err := s.netbox.Stop(w.ctx); err != nil {
			w.t.Error(err)
		}
	})
	w.apply(echo("web", 2, "node-3", "node-4"), service("near", "local"), service("far", "remote"), fmt.Sprintf(`
apiVersion: v1
kind: Secret
metadata: {name: netbox-client, namespace: purelb-system}
stringData: {user-token: %q}
`, backend.Token))
	s.group("netbox", product.Namespace, fmt.Sprintf("{netbox: {url: %q, announce: remote, parents: [{range: {start: 10.255.40.1}}]}}", s.netbox.URL))
	s.group("soon", product.Namespace, "{remote: {v4pools: [{subnet: 10.255.41.0/24, pool: 10.255.41.1-10.255.41.8}]}}")
	s.group("tiny", product.Namespace, "{remote: {v4pools: [{subnet: 10.255.42.0/24, pool: 10.255.42.1-10.255.42.2}]}}")
	w.apply(inAlertGroup("booked", "netbox"), inAlertGroup("lost", "netbox"))
	w.addresses("near", 2)
	w.addresses("far", 2)
	w.addresses("booked", 1)
	w.addresses("lost", 1)
	w.sessions()
	w.detects()
}

// noLeader ends the allocator for a while.
func (s *alertScene) noLeader() {
	w := s.world
	s.begin("the allocator is scaled to 0", "PureLBNoLeader")
	resume := w.stopAllocator()
	s.fire()
	s.orphan()
	resume()
	s.query("Prometheus reads the new allocator", `purelb_address_pool_available{pool=~".*alert-soon"} == 8`+
		` and on (instance) count_over_time(purelb_address_pool_available{pool=~".*alert-soon"}[10s]) >= 4`)
}

// orphan deletes a Service with an address of NetBox while there is no allocator that releases the
// address, and takes away the finalizer that would keep the Service until there is one. The next
// allocator compares its addresses more often than by default, and a person lets it release them.
func (s *alertScene) orphan() {
	w := s.world
	s.begin("a Service with an address of NetBox is deleted while there is no allocator", "PureLBIPAMOrphans")
	kubectl(w, "patch", "service", "lost", "--namespace", "e2e", "--type=json", `--patch=[{"op":"remove","path":"/metadata/finalizers"}]`)
	w.remove(inAlertGroup("lost", "netbox"))
	kubectl(w, "set", "env", "--namespace", product.Namespace, "deployment/allocator", "PURELB_IPAM_SWEEP_INTERVAL=10s")
	s.later(func() {
		(&troubled{w, buildPlugin(w.t)}).asks("ipam release-orphans alert-netbox --confirm")
		kubectl(w, "set", "env", "--namespace", product.Namespace, "deployment/allocator", "PURELB_IPAM_SWEEP_INTERVAL-")
	})
}

// standing starts faults that last until the cluster is healed.
func (s *alertScene) standing() {
	w := s.world
	s.begin("the speaker of one node is of another release", "PureLBVersionSkew")
	s.otherRelease("node-4")

	s.begin("five of the eight addresses of a group are taken at once", "PureLBPoolExhaustedSoon")
	for i := range 5 {
		w.apply(inAlertGroup(fmt.Sprint("soon-", i), "soon"))
	}
	s.begin("three Services ask for the two addresses of a group",
		"PureLBAllocationRejected", "PureLBServicesWaiting", "PureLBPoolExhausted", "PureLBPoolAlmostExhausted")
	w.apply(inAlertGroup("tiny-1", "tiny"), inAlertGroup("tiny-2", "tiny"), inAlertGroup("tiny-3", "tiny"))

	s.begin("a group has addresses of a network that no node has", "PureLBAddressNotAnnounced")
	s.group("nowhere", product.Namespace, "{local: {v4pools: [{subnet: 198.51.100.0/24, pool: 198.51.100.0/24}]}}")
	w.apply(inAlertGroup("nowhere", "nowhere"))

	s.begin("a ServiceGroup is in the namespace of a team", "PureLBGroupOutOfScope")
	s.group("team", namespace, "{remote: {v4pools: [{subnet: 10.255.43.0/24, pool: 10.255.43.0/24}]}}")

	s.begin("two ServiceGroups have the same addresses", "PureLBConfigurationRefused")
	s.group("again", product.Namespace, "{remote: {v4pools: [{subnet: 10.255.42.0/24, pool: 10.255.42.0/24}]}}")

	s.begin("the LBNodeAgent of a node names an interface by an expression that is none", "PureLBAgentConfigurationInvalid")
	broken := `
apiVersion: purelb.io/v2
kind: LBNodeAgent
metadata: {name: alert-broken, namespace: purelb-system}
spec: {nodeSelector: {matchLabels: {kubernetes.io/hostname: node-4}}, local: {localInterface: "eth(0"}}
`
	w.apply(broken)
	s.later(func() { w.remove(broken) })

	s.begin("the kernel of a node refuses addresses on kube-lb0", "PureLBAgentFailing")
	s.sysctl("node-3", "net.ipv6.conf.kube-lb0.disable_ipv6", "1")
	s.later(func() { s.sysctl("node-3", "net.ipv6.conf.kube-lb0.disable_ipv6", "0") })

	s.fire("PureLBAllocationRejected", "PureLBServicesWaiting", "PureLBPoolExhausted", "PureLBAddressNotAnnounced", "PureLBGroupOutOfScope",
		"PureLBConfigurationRefused", "PureLBAgentConfigurationInvalid")
}

func (s *alertScene) sysctl(node, name, value string) {
	s.world.t.Helper()
	if out, err := lab.Exec(s.world.ctx, node, "sysctl", "-w", name+"="+value); err != nil {
		s.world.t.Errorf("%s on %s: %v %s", name, node, err, out)
	}
}

// otherRelease runs a speaker of another release on a node, as after an interrupted upgrade.
func (s *alertScene) otherRelease(node string) {
	t := s.world.t
	t.Helper()
	program := filepath.Join(t.(*testing.T).TempDir(), "k8gobgp")
	build := exec.CommandContext(s.world.ctx, "go", "build", "-ldflags", "-s -w -X purelb.io/purelb/internal/buildinfo.release=v0.0.1", "-o", program, "./cmd/k8gobgp")
	build.Dir, build.Env = lab.tree.Root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build another release: %v\n%s", err, out)
	}
	image := product.Repository + "/k8gobgp:v0.0.1"
	if _, err := lab.AddImage(image, program); err != nil {
		t.Fatal(err)
	}
	pod := s.world.readyPod("lbnodeagent", node)
	kubectl(s.world, "set", "image", "--namespace", product.Namespace, "pod/"+pod.Name, "k8gobgp="+image)
	s.later(func() { s.world.replaceAgent(node) })
}

// bgp makes faults between speakers and the router.
func (s *alertScene) bgp() {
	w := s.world
	s.begin("a neighbor has a password in a Secret that does not exist", "PureLBBGPConfigurationNotReady", "PureLBBGPSessionDown")
	w.apply(peering(withBFD) + `
  - config: {neighborAddress: 172.30.250.77, peerAsn: 64514, authPasswordSecretRef: {name: alert-none, key: password}}
`)
	restore := w.undoable(func() { w.apply(peering(withBFD)) })
	s.fire()
	restore()
	w.sessions()

	s.begin("a group names no neighbor of some nodes", "PureLBRoutesMissing")
	peers := func(list string) {
		kubectl(w, "patch", "servicegroup", "remote", "--namespace", product.Namespace, "--type=merge", "--patch", `{"spec": {"bgp": {"peers": `+list+`}}}`)
	}
	peers(`["172.30.250.1"]`)
	restore = w.undoable(func() { peers("null") })
	s.fire()
	restore()
	w.sessions()
	w.detects()

	s.begin("a firewall drops UDP port 3784", "PureLBBFDDown")
	heal := s.dropBFD("node-2")
	s.fire()
	heal()

	s.begin("the link to the router loses all packets for a moment, again and again", "PureLBBFDFlaps", "PureLBBGPSessionFlaps")
	for range 12 {
		w.detects()
		began := time.Now()
		heal := s.dropBFD("node-2")
		time.Sleep(3 * time.Second) // the router gives up after one
		heal()
		w.sessions()
		w.detects()
		w.t.Logf("a flap of BFD takes %s", time.Since(began).Round(100*time.Millisecond))
		if s.has("PureLBBFDFlaps", "PureLBBGPSessionFlaps") {
			break
		}
	}
	s.fire()
}

// dropBFD drops the packets of BFD of a node.
func (s *alertScene) dropBFD(node string) (heal func()) {
	s.world.rules(node, "add table inet e2e; add chain inet e2e in {type filter hook input priority -300;}; "+
		"add rule inet e2e in udp dport 3784 drop; "+
		"add chain inet e2e out {type filter hook output priority -300;}; add rule inet e2e out udp dport 3784 drop")
	return s.world.undoable(func() { s.world.rules(node, noRules) })
}

// segment makes another machine take addresses, and moves an address often.
func (s *alertScene) segment() {
	w := s.world
	all := w.addresses("near", 2)
	v4 := all[slices.IndexFunc(all, netip.Addr.Is4)]
	s.begin("another machine takes an address of the cluster", "PureLBForeignMAC")
	nic, _ := stranger(w, v4)
	takes := func(a netip.Addr) {
		s.router("ip", "address", "add", a.String()+"/32", "dev", nic)
		s.later(func() { s.router("ip", "address", "delete", a.String()+"/32", "dev", nic) })
	}
	takes(v4)
	s.shout(v4)
	s.fire()

	s.begin("another machine has a free address of a group", "PureLBAddressesQuarantined")
	free := netip.MustParseAddr("172.30.250.190")
	takes(free)
	s.group("taken", product.Namespace, "{local: {v4pools: [{subnet: 172.30.250.0/24, pool: 172.30.250.190-172.30.250.191}]}}")
	w.apply(inAlertGroup("taken", "taken"))
	s.later(func() { w.restartAgent("node-1"); w.restartAgent("node-2"); w.restartAgent("node-4") }) // a quarantine lasts ten minutes

	s.begin("nodes are excluded in turn", "PureLBAddressMoves")
	const label = "node.kubernetes.io/exclude-from-external-load-balancers"
	v6 := all[slices.IndexFunc(all, netip.Addr.Is6)]
	for range 8 {
		node := w.holderNodes(v6)[0]
		kubectl(w, "label", "node", node, label+"=")
		include := w.undoable(func() { kubectl(w, "label", "node", node, label+"-") })
		w.until(patience, v6.String()+" has left "+node, func() bool {
			now := w.holderNodes(v6)
			return len(now) == 1 && now[0] != node
		})
		include()
		if s.has("PureLBAddressMoves") {
			break
		}
	}
	s.fire()
}

// router runs a command on the router.
func (s *alertScene) router(argv ...string) {
	s.world.t.Helper()
	if out, err := lab.Exec(s.world.ctx, cluster.Router, argv...); err != nil {
		s.world.t.Errorf("%v: %v %s", argv, err, out)
	}
}

// shout sends a packet from an address of the router to an unknown machine. So the router sends a
// request on the segment with the address as the sender.
func (s *alertScene) shout(from netip.Addr) {
	s.world.t.Helper()
	err := probe.In(lab.Netns(cluster.Router), func() error {
		unknown := net.UDPAddr{IP: net.IPv4(172, 30, 250, 99), Port: 9}
		conn, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), &unknown)
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.Write([]byte("hello"))
		return err
	})
	if err != nil {
		s.world.t.Error(err)
	}
}

// cutOff separates the holder of an address from all other nodes and from the API server. Clients
// reach all nodes.
func (s *alertScene) cutOff() {
	w := s.world
	v6 := w.addresses("near", 2)[1]
	holder := w.holderNodes(v6)[0]
	rest := slices.DeleteFunc(nodeNames(), func(n string) bool { return n == holder })
	s.begin("a node hears neither other nodes nor the API server, and clients reach all",
		"PureLBAddressAnnouncedTwice", "PureLBAgentGone", "PureLBLeaseUnhealthy", "PureLBAgentCutOff", "PureLBLeasesInsteadOfGossip")
	mend := sever(w, []string{holder}, rest)
	heal := cutOff(w, holder)
	s.fire()
	heal()
	mend()
	w.until(2*patience, "one node has "+v6.String(), func() bool { return len(w.holders(v6)) == 1 })
}

// ipam ends NetBox and starts a slow one.
func (s *alertScene) ipam() {
	w := s.world
	s.begin("NetBox is switched off", "PureLBIPAMUnhealthy")
	if err := s.netbox.Stop(w.ctx); err != nil {
		w.t.Fatal(err)
	}
	w.apply(inAlertGroup("waits", "netbox"))
	s.fire()

	s.begin("a request to NetBox takes 3 s", "PureLBIPAMSlow")
	s.netbox = s.startNetBox("3s")
	for i := 0; i < 40 && !s.has("PureLBIPAMSlow"); i++ {
		w.apply(inAlertGroup(fmt.Sprint("slow-", i), "netbox"))
		time.Sleep(2 * time.Second)
	}
	s.fire()
}

// noAgents makes the DaemonSet of the agents select no node.
func (s *alertScene) noAgents() {
	w := s.world
	s.begin("the DaemonSet of the agents selects no node", "PureLBNoAgents")
	selector := func(value string) {
		kubectl(w, "patch", "daemonset", "lbnodeagent", "--namespace", product.Namespace, "--patch",
			`{"spec":{"template":{"spec":{"nodeSelector":{"e2e":`+value+`}}}}}`)
	}
	selector(`"none"`)
	restore := w.undoable(func() { selector("null") })
	s.fire()
	restore()
	for _, n := range nodeNames() {
		w.agentReady(n)
	}
}
