package e2e

import (
	"encoding/base64"
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"purelb.io/purelb/lab/backend"
	"purelb.io/purelb/lab/cluster"
	"purelb.io/purelb/lab/product"
)

// troubleGroups are the groups of all faults.
var troubleGroups = []string{"tiny", "fenced", "nobody", "four", "clash", "twin", "boxed", "away"}

// withoutGroups removes the groups of all faults at the end of the test.
func (w *troubled) withoutGroups() {
	for _, name := range troubleGroups {
		w.remove(troubleGroup(name, remoteRange("10.255.40.0/24", "10.255.40.7/32", "")))
	}
}

// troubleGroup is a group of the tests of troubleshooting.
func troubleGroup(name, spec string) string {
	return fmt.Sprintf("apiVersion: purelb.io/v2\nkind: ServiceGroup\nmetadata: {name: %s, namespace: %s}\nspec: %s\n", name, product.Namespace, spec)
}

// remoteRange is the spec of a group with a range of remote addresses.
func remoteRange(subnet, pool, more string) string {
	return fmt.Sprintf(`{remote: {v4pools: [{subnet: %s, pool: %s, aggregation: /32}]}%s}`, subnet, pool, more)
}

const remoteName = "purelb.io/service-group: remote"

// applied applies documents. The function that it returns removes them.
func (w *troubled) applied(documents ...string) (remove func()) {
	w.t.Helper()
	w.apply(documents...)
	return func() { w.remove(documents...) }
}

// replaced applies documents. The function that it returns applies instead in their place.
func (w *troubled) replaced(documents, instead string) (mend func()) {
	w.t.Helper()
	w.apply(documents)
	return func() { w.apply(instead) }
}

// ofServices are faults of the configuration and of Services.
var ofServices = []trouble{
	{"The Service names a group that does not exist", "explain service e2e/nogroup", "there is no ServiceGroup of that name", func(w *troubled) func() {
		return w.replaced(plain("nogroup", 80, "purelb.io/service-group: nowhere"), plain("nogroup", 80, remoteName))
	}},
	{"The group has no free address", "explain service e2e/late", `pool "tiny" exhausted`, func(w *troubled) func() {
		w.apply(troubleGroup("tiny", remoteRange("10.255.40.0/24", "10.255.40.7/32", "")), plain("early", 80, "purelb.io/service-group: tiny"))
		w.addresses("early", 1)
		w.apply(plain("late", 80, "purelb.io/service-group: tiny"))
		return func() { w.remove(plain("early", 80, "")) }
	}},
	{"The group is for other namespaces", "explain service e2e/fenced", "namespace denied", func(w *troubled) func() {
		fenced := func(more string) string {
			return troubleGroup("fenced", remoteRange("10.255.41.0/24", "10.255.41.0/24", more))
		}
		w.apply(fenced(", namespaces: [shop], enforceNamespaces: true"), plain("fenced", 80, "purelb.io/service-group: fenced"))
		return func() { w.apply(fenced(", namespaces: [shop], enforceNamespaces: false")) }
	}},
	{"No node has an interface in the subnet of the group", "explain service e2e/nobody", "no node has an interface", func(w *troubled) func() {
		w.apply(troubleGroup("nobody", "{local: {v4pools: [{subnet: 198.51.100.0/24, pool: 198.51.100.0/24}]}}"), plain("nobody", 80, "purelb.io/service-group: nobody"))
		return func() { // The Service would keep its address, so the test replaces it by another Service.
			w.remove(plain("nobody", 80, ""))
			w.apply(plain("nobody", 80, remoteName))
		}
	}},
	{"The address that the Service asks for is no address", "explain service e2e/mistyped", "10.255.1.900", func(w *troubled) func() {
		return w.replaced(plain("mistyped", 80, "purelb.io/addresses: 10.255.1.900"), plain("mistyped", 80, remoteName))
	}},
	{"The address that the Service asks for is in no group", "explain service e2e/outside", "is in no pool", func(w *troubled) func() {
		return w.replaced(plain("outside", 80, "purelb.io/addresses: 203.0.113.9"), plain("outside", 80, "purelb.io/addresses: 10.255.1.90"))
	}},
	{"The address that the Service asks for is another Service's", "explain service e2e/second", "already in use by e2e/first", func(w *troubled) func() {
		w.apply(plain("first", 80, "purelb.io/addresses: 10.255.1.91"))
		w.addresses("first", 1)
		w.apply(plain("second", 80, "purelb.io/addresses: 10.255.1.91"))
		return func() { w.remove(plain("first", 80, "")) }
	}},
	{"Two Services that share an address have the same port", "explain service e2e/shares", "port 80/TCP is already in use by e2e/shared", func(w *troubled) func() {
		with := "purelb.io/addresses: 10.255.1.92, purelb.io/allow-shared-ip: key"
		w.apply(plain("shared", 80, with))
		w.addresses("shared", 1)
		return w.replaced(plain("shares", 80, with), plain("shares", 81, with))
	}},
	{"The Service needs IPv6, and the group has none", "explain service e2e/six", "has no IPv6 range", func(w *troubled) func() {
		w.apply(troubleGroup("four", remoteRange("10.255.42.0/24", "10.255.42.0/24", "")))
		six := func(group string) string {
			return plain("six", 80, "purelb.io/service-group: "+group, "ipFamilyPolicy: SingleStack", "ipFamilies: [IPv6]")
		}
		return w.replaced(six("four"), six("remote"))
	}},
	{"The range of the group is in the Service network", "explain group clash", "10.96.0.0/16", func(w *troubled) func() {
		return w.applied(troubleGroup("clash", remoteRange("10.96.7.0/24", "10.96.7.0/24", "")))
	}},
	{"Two groups have the same addresses", "explain group twin", `overlaps with already defined pool "remote"`, func(w *troubled) func() {
		return w.applied(troubleGroup("twin", remoteRange("10.255.1.0/24", "10.255.1.128-10.255.1.140", "")))
	}},
}

// ofBackends are faults of NetBox.
func ofBackends(n *backend.NetBox) []trouble {
	with := func(name, url string) string {
		return troubleGroup(name, fmt.Sprintf("{netbox: {url: %s, announce: remote, parents: [{range: {start: 10.255.16.1}}]}}", url))
	}
	secret := func(token string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: netbox-client, namespace: purelb-system}\nstringData: {user-token: %q}\n", token)
	}
	// For a moment the plugin names the cause with the words of the group's condition.
	const asked = "PureLB goes on asking: read the version in NetBox"
	return []trouble{
		{"NetBox refuses the token", "explain service e2e/token", asked, func(w *troubled) func() {
			w.expect("backendFailed", "backendUnavailable")
			w.apply(secret("0123456789abcdef"), with("boxed", n.URL), plain("token", 80, "purelb.io/service-group: boxed"))
			return func() { w.apply(secret(backend.Token)) }
		}},
		{"NetBox does not answer", "explain service e2e/away", asked, func(w *troubled) func() {
			w.expect("backendFailed", "backendUnavailable")
			m, err := lab.Machine(cluster.Client)
			if err != nil {
				w.t.Fatal(err)
			}
			w.apply(with("away", "http://"+netip.AddrPortFrom(m.V4(), 9).String()+"/"), plain("away", 80, "purelb.io/service-group: away"))
			return func() { w.remove(plain("away", 80, ""), with("away", n.URL)) }
		}},
	}
}

// agentWith returns an LBNodeAgent for one node with this interface.
func agentWith(node, link string) string {
	return fmt.Sprintf("apiVersion: purelb.io/v2\nkind: LBNodeAgent\nmetadata: {name: %[1]s, namespace: %[2]s}\n"+
		"spec: {local: {localInterface: %[3]s}, nodeSelector: {matchLabels: {kubernetes.io/hostname: %[1]s}}}\n", node, product.Namespace, link)
}

// ofNodes are faults of nodes and of the segment. Each fault is on a different node.
var ofNodes = []trouble{
	{"The LBNodeAgent names an interface that the node does not have", "explain node node-3", `no interface matches "eth7"`, func(w *troubled) func() {
		w.expect("configProblem")
		return w.applied(agentWith("node-3", "eth7"))
	}},
	{"The interface of the node is down", "explain node node-4", "interface eth1 is down", func(w *troubled) func() {
		w.expect("configProblem")
		w.apply(agentWith("node-4", "eth1"))
		w.exec("node-4", "ip link set eth1 down")
		return func() {
			// The kernel has removed the IPv6 addresses of the interface.
			w.exec("node-4", "ip link set eth1 up; ip address replace 2001:db8:1:250::104/64 dev eth1 nodad")
			w.remove(agentWith("node-4", "eth1"))
		}
	}},
	{"Another machine has the address", "explain ip 172.30.250.155", "it is also an address of another machine", func(w *troubled) func() {
		w.expect("addressConflict", "configProblem")
		w.exec(cluster.Router, "ip address add 172.30.250.155/32 dev eth0")
		w.apply(plain("foreign", 80, "purelb.io/addresses: 172.30.250.155"))
		return func() {
			w.exec(cluster.Router, "ip address delete 172.30.250.155/32 dev eth0")
			w.remove(plain("foreign", 80, ""))
		}
	}},
}

// ofARP is a fault of the kernel of a node. No Service has the address, so the answer does not
// depend on the election.
var ofARP = []trouble{
	{"A node answers ARP for addresses that it does not have", "probe 172.30.250.151", "set arp_ignore=1", func(w *troubled) func() {
		w.expect("addressConflict", "configProblem")
		w.answersByMistake("node-1", []netip.Addr{netip.MustParseAddr("172.30.250.151")})
		return func() { w.exec("node-1", "sysctl -qw net.ipv4.conf.all.arp_ignore=1; ip link delete "+ipvsLink) }
	}},
}

// ofGossip is a fault between agents.
var ofGossip = []trouble{
	{"Nodes do not hear each other", "explain node node-2", "does not hear all other nodes by gossip", func(w *troubled) func() {
		return block(w.world, "node-2")
	}},
}

// ofKeys is a fault of the Secret of the agents.
var ofKeys = []trouble{
	{"An agent has no key for gossip that the others have", "explain node node-2", "have the key of the Secret purelb-gossip", func(w *troubled) func() {
		w.expect("gossipKeyMissing")
		key := w.secretKey()
		set := func(key string) {
			kubectl(w.world, "patch", "secret", "purelb-gossip", "--namespace", product.Namespace, "--patch", `{"data":{"key":"`+key+`"}}`)
		}
		set("c2hvcnQ=") // This text is too short for a key.
		w.restartAgent("node-2")
		return func() { set(key) }
	}},
}

// secretKey is the key for gossip as the Secret has it.
func (w *troubled) secretKey() string {
	w.t.Helper()
	var secret corev1.Secret
	if err := w.Get(w.ctx, client.ObjectKey{Namespace: product.Namespace, Name: "purelb-gossip"}, &secret); err != nil {
		w.t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(secret.Data["key"])
}

// ofRouters are faults of BGP. All nodes have the same router, which has an interface on each
// segment.
var ofRouters = []trouble{
	{"The password of BGP is wrong", "explain node node-1", "password", func(w *troubled) func() {
		w.expect("neighborDown")
		return w.replaced(strings.Replace(peering(withBFD), "neighborAddress: 172.30.250.1,", "neighborAddress: 172.30.250.1, authPassword: wrong,", 1), peering(withBFD))
	}},
	{"The router does not speak BFD", "explain node node-3", "BFD with", func(w *troubled) func() {
		return w.routerWithoutBFD()
	}},
}

// ofPrograms are faults of the installation.
var ofPrograms = []trouble{
	{"No allocator runs", "explain service e2e/unserved", "no allocator is ready", func(w *troubled) func() {
		mend := w.allocators(0)
		w.apply(plain("unserved", 80, remoteName))
		return mend
	}},
}

// ofPower is a fault of a node.
var ofPower = []trouble{
	{"The node is off", "explain node node-3", "node node-3 is not ready", func(w *troubled) func() {
		w.expect(withoutAPI...)
		w.crash("node-3")
		return func() { lab.boot(w.t, "node-3"); w.agentReady("node-3") }
	}},
}

// ofCluster are faults of other programs of the cluster.
var ofCluster = []trouble{
	{"kube-proxy runs in IPVS mode without strictARP", "check", "kube-proxy runs in IPVS mode without strictARP", func(w *troubled) func() {
		return w.applied("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kube-proxy, namespace: kube-system}\ndata: {config.conf: \"mode: ipvs\"}\n")
	}},
}

// ofNamespace are faults of the namespace of PureLB.
var ofNamespace = []trouble{
	{"The namespace refuses the pods of agents", "check", "label it pod-security.kubernetes.io/enforce=privileged", func(w *troubled) func() {
		label := func(level string) {
			kubectl(w.world, "label", "--overwrite", "namespace", product.Namespace, "pod-security.kubernetes.io/enforce"+level)
		}
		label("=baseline")
		return func() { label("-") }
	}},
}
