package spec

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"purelb.io/purelb/lab/internal/machine"
	"purelb.io/purelb/lab/internal/topology"
)

func TestMachinesRunTheirPrograms(t *testing.T) {
	want := map[string]string{
		"cp":     "etcd registry forward kube-apiserver kube-controller-manager kube-scheduler coredns",
		"router": "prepare zebra bfdd bgpd configure",
		"client": "",
		"node-1": "containerd kubelet kube-proxy",
		"node-2": "containerd kubelet kube-proxy",
	}
	got := map[string]string{}
	for name, s := range specs(t) {
		var names []string
		for _, p := range s.Programs {
			names = append(names, p.Name)
		}
		got[name] = strings.Join(names, " ")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNodeHasOneAddressAndDualStackPods(t *testing.T) {
	node := specs(t)["node-2"]
	kubelet, _ := node.Program("kubelet")
	if !slices.Contains(kubelet.Args, "--node-ip=172.30.251.102") {
		t.Errorf("kubelet %v", kubelet.Args)
	}
	var conf struct {
		Plugins []struct {
			IPAM struct {
				Ranges [][]struct{ Subnet string }
			}
		}
	}
	if err := json.Unmarshal([]byte(file(t, node, "/etc/cni/net.d/10-lab.conflist")), &conf); err != nil {
		t.Fatal(err)
	}
	want := [][]struct{ Subnet string }{{{"10.244.2.0/24"}}, {{"fd00:10:244:2::/64"}}}
	if diff := cmp.Diff(want, conf.Plugins[0].IPAM.Ranges); diff != "" {
		t.Errorf("pod ranges (-want +got):\n%s", diff)
	}
}

func TestPodsAskTheDNSServerOfTheCluster(t *testing.T) {
	kubelet := file(t, specs(t)["node-1"], "/etc/lab/kubelet.yaml")
	for _, line := range []string{"clusterDomain: cluster.local\n", `clusterDNS: ["10.96.0.10","fd00:10:96::a"]` + "\n"} {
		if !strings.Contains(kubelet, line) {
			t.Errorf("no line %q in\n%s", line, kubelet)
		}
	}
	if corefile := file(t, specs(t)["cp"], "/etc/lab/Corefile"); !strings.Contains(corefile, "kubernetes cluster.local ") {
		t.Errorf("Corefile:\n%s", corefile)
	}
}

func TestRouterPeersWithEveryNodeTwice(t *testing.T) {
	conf := file(t, specs(t)["router"], "/etc/frr/frr.conf")
	for _, line := range []string{
		"router bgp 64514",
		"bgp router-id 172.30.248.1",
		"neighbor 172.30.250.101 peer-group NODES",
		"neighbor 172.30.250.101 update-source 172.30.250.1",
		"neighbor 172.30.251.102 peer-group NODES",
		"neighbor 172.30.251.102 update-source 172.30.251.1",
		"neighbor 2001:db8:1:250::101 peer-group NODES6",
		"neighbor 2001:db8:1:251::102 peer-group NODES6",
		"neighbor 2001:db8:1:251::102 update-source 2001:db8:1:251::1",
		"neighbor NODES graceful-restart-helper",
		"neighbor NODES bfd",
		"neighbor NODES6 bfd profile NODES",
		"maximum-paths 8",
	} {
		if !strings.Contains(conf, line+"\n") {
			t.Errorf("no line %q", line)
		}
	}
}

func TestOnlyTheControlPlaneHasTheClustersKeys(t *testing.T) {
	for name, s := range specs(t) {
		if has := slices.Contains(s.Env, "KUBECONFIG=/state/pki/admin.kubeconfig"); has != (name == "cp") {
			t.Errorf("%s: environment %v", name, s.Env)
		}
	}
}

func TestNodesFindNamesAndImages(t *testing.T) {
	node := specs(t)["node-1"]
	if hosts := file(t, node, "/etc/hosts"); !strings.Contains(hosts, "172.30.249.10 client\n2001:db8:1:249::10 client\n") {
		t.Errorf("hosts:\n%s", hosts)
	}
	if mirror := file(t, node, "/etc/containerd/certs.d/_default/hosts.toml"); !strings.Contains(mirror, `[host."http://172.30.248.10:5000"]`) {
		t.Errorf("mirror:\n%s", mirror)
	}
}

func TestFlannelServesANodeBeforeItsKubelet(t *testing.T) {
	world, err := topology.FindWorld("flannel")
	if err != nil {
		t.Fatal(err)
	}
	node := specsOf(t, world)["node-2"]
	var names []string
	for _, p := range node.Programs {
		names = append(names, p.Name)
	}
	if got, want := strings.Join(names, " "), "containerd flannel kubelet kube-proxy"; got != want {
		t.Errorf("programs %s; want %s", got, want)
	}
	want := `{"Backend":{"MTU":1480,"Type":"vxlan"},"EnableIPv4":true,"EnableIPv6":true,"EnableNFTables":true,` +
		`"IPv6Network":"fd00:10:244::/48","Network":"10.244.0.0/16"}`
	if got := file(t, node, "/etc/lab/flannel.json"); got != want {
		t.Errorf("configuration %s; want %s", got, want)
	}
	if cni := file(t, node, "/etc/cni/net.d/10-lab.conflist"); !strings.Contains(cni, `"mtu": 1430,`) {
		t.Errorf("network plugins:\n%s", cni)
	}
}

func specs(t *testing.T) map[string]machine.Spec {
	t.Helper()
	return specsOf(t, topology.Worlds[0])
}

func specsOf(t *testing.T, world topology.World) map[string]machine.Spec {
	t.Helper()
	plan, err := topology.New(2, world)
	if err != nil {
		t.Fatal(err)
	}
	l := Lab{Plan: plan, State: "/state", Bin: "/cache/build", Cache: "/cache"}
	all := map[string]machine.Spec{}
	for _, m := range plan.Machines {
		all[m.Name] = l.Machine(m)
	}
	return all
}

func file(t *testing.T, s machine.Spec, path string) string {
	t.Helper()
	i := slices.IndexFunc(s.Files, func(f machine.File) bool { return filepath.Clean(f.Path) == path })
	if i < 0 {
		t.Fatalf("%s has no %s", s.Name, path)
	}
	return s.Files[i].Text
}
