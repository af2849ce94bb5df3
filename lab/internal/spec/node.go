package spec

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"

	"purelb.io/purelb/lab/internal/machine"
	"purelb.io/purelb/lab/internal/topology"
)

// PauseImage is the image that holds a pod's namespaces.
const PauseImage = "registry.k8s.io/pause:3.10"

const containerdSocket = "/run/containerd/containerd.sock"

// Sandboxes is the directory in which containerd has a directory for each pod since the boot.
const Sandboxes = "/run/containerd/io.containerd.grpc.v1.cri/sandboxes"

// node adds containerd, kubelet and kube-proxy. Images, containers and the kubelet's directory are
// on its disk. Everything else is new after each boot.
func (l Lab) node(s *machine.Spec, m topology.Machine) {
	s.Cgroups = true
	s.Disks = map[string]string{
		"/var/lib/containerd": l.State.Disk(m.Name, "containerd"),
		"/var/lib/kubelet":    l.State.Disk(m.Name, "kubelet"),
		"/var/log/pods":       l.State.Disk(m.Name, "pods"),
	}
	s.Files = append(s.Files,
		machine.File{Path: "/etc/containerd/config.toml", Text: l.containerdConfig()},
		machine.File{Path: "/etc/containerd/certs.d/_default/hosts.toml", Text: l.mirror()},
		machine.File{Path: "/etc/cni/net.d/10-lab.conflist", Text: l.cniConfig(m)},
		machine.File{Path: "/etc/lab/kubelet.yaml", Text: l.kubeletConfig(m)},
		machine.File{Path: "/etc/lab/kube-proxy.yaml", Text: l.proxyConfig(m)},
	)
	s.Programs = []machine.Program{
		{Name: "containerd", Ready: containerdSocket, Args: []string{"/usr/bin/containerd", "--config=/etc/containerd/config.toml"}},
	}
	if l.Plan.World.Network == topology.Flannel {
		s.Files = append(s.Files, machine.File{Path: flannelConfigFile, Text: l.flannelConfig()})
		s.Programs = append(s.Programs, l.flannel(m))
	}
	// In most clusters kube-proxy is a pod itself.
	proxy := l.program("kube-proxy", "--config=/etc/lab/kube-proxy.yaml", "--v=2")
	proxy.WithPods = true
	s.Programs = append(s.Programs,
		l.program("kubelet",
			"--config=/etc/lab/kubelet.yaml",
			"--kubeconfig="+l.pki(m.Name+".kubeconfig"),
			"--hostname-override="+m.Name,
			"--node-ip="+l.nodeIP(m),
			"--root-dir=/var/lib/kubelet",
			"--v=2"),
		proxy,
	)
}

// nodeIP returns the address of a node for its kubelet: one InternalIP, because many tools use the last of
// several. Without an address, the kubelet looks for one of the family.
func (l Lab) nodeIP(m topology.Machine) string {
	if l.Plan.World.NoNodeIP {
		return "::"
	}
	return l.Plan.Primary(m).String()
}

func (l Lab) kubeletConfig(m topology.Machine) string {
	return fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: %[1]s}}
authorization: {mode: Webhook}
tlsCertFile: %[2]s
tlsPrivateKeyFile: %[3]s
containerRuntimeEndpoint: unix://%[4]s
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
oomScoreAdj: 0
resolvConf: /etc/resolv.conf
clusterDomain: %[5]s
clusterDNS: %[6]s
evictionHard: {memory.available: 100Mi}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
nodeStatusUpdateFrequency: 5s
maxPods: 60
enforceNodeAllocatable: [pods]
shutdownGracePeriod: 0s
`, l.pki("ca.crt"), l.pki(m.Name+".crt"), l.pki(m.Name+".key"), containerdSocket, Domain, jsonOf(l.Plan.DNS()))
}

// The limits of connection tracking are zero, because only the host's own network namespace can
// change them.
func (l Lab) proxyConfig(m topology.Machine) string {
	return fmt.Sprintf(`apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: %[4]s
hostnameOverride: %[1]s
clientConnection: {kubeconfig: %[2]s}
clusterCIDR: %[3]s
healthzBindAddress: 0.0.0.0:10256
metricsBindAddress: 127.0.0.1:10249
conntrack: {maxPerCore: 0, min: 0}
`, m.Name, l.pki("proxy.kubeconfig"), join(l.Plan.Pods()), l.Plan.World.Proxy)
}

// restrict_oom_score_adj is for a root without CAP_SYS_RESOURCE, as in many virtual machines and
// containers. Such a root cannot lower a score.
func (l Lab) containerdConfig() string {
	return fmt.Sprintf(`version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.internal.v1.tracing", "io.containerd.tracing.processor.v1.otlp",
]
[grpc]
  address = %[1]q
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %[2]q
  restrict_oom_score_adj = true
  disable_apparmor = true
  disable_hugetlb_controller = true
  tolerate_missing_hugetlb_controller = true
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "/etc/containerd/certs.d"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = %[3]q
    conf_dir = "/etc/cni/net.d"
`, containerdSocket, PauseImage, filepath.Join(l.Bin, "cni"))
}

// mirror makes containerd use the lab's registry in place of every registry. It names the registry
// by IPv4 in every world, because containerd 1.6 ignores a host whose name is an IPv6 address.
func (l Lab) mirror() string {
	cp, _ := l.Plan.Machine(topology.ControlPlane)
	return fmt.Sprintf(`server = "http://%[1]s"
[host."http://%[1]s"]
  capabilities = ["pull", "resolve"]
`, netip.AddrPortFrom(cp.V4(), RegistryPort))
}

func (l Lab) cniConfig(m topology.Machine) string {
	var ranges [][]map[string]string
	var routes []map[string]string
	for _, p := range m.Pods {
		ranges = append(ranges, []map[string]string{{"subnet": p.String()}})
		all := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
		if p.Addr().Is6() {
			all = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		}
		routes = append(routes, map[string]string{"dst": all.String()})
	}
	return fmt.Sprintf(`{
  "cniVersion": "1.0.0", "name": "lab", "plugins": [
    {"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true, "mtu": %d, "ipam": {
      "type": "host-local",
      "ranges": %s,
      "routes": %s}},
    {"type": "portmap", "backend": "nftables", "capabilities": {"portMappings": true}}
  ]
}
`, l.podMTU(), jsonOf(ranges), jsonOf(routes))
}

func jsonOf(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // the values are maps and strings
	}
	return text
}
