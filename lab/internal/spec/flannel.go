package spec

import (
	"path/filepath"

	"purelb.io/purelb/lab/internal/machine"
	"purelb.io/purelb/lab/internal/topology"
)

const (
	flannelConfigFile = "/etc/lab/flannel.json"
	flannelSubnetFile = "/run/flannel/subnet.env"
)

// The sizes of packets. flannelMTU is the largest packet of a pod that fits into a cable's largest
// packet with the headers of VXLAN over IPv6, which are 70 bytes. flannel itself subtracts 50
// bytes, the size for IPv4, from the size in its configuration.
const (
	cableMTU        = 1500
	flannelMTU      = cableMTU - 70
	flannelOverhead = 50
)

// podMTU is the size of packets that pods may send. 0 means that of the cable.
func (l Lab) podMTU() int {
	if l.Plan.World.Network == topology.Flannel {
		return flannelMTU
	}
	return 0
}

// flannel is ready when it has written the file that flannel's network plugin reads. The lab needs
// no such plugin: it knows the subnets of the node before the node starts.
func (l Lab) flannel(m topology.Machine) machine.Program {
	return machine.Program{Name: "flannel", Ready: flannelSubnetFile, Args: []string{
		"/usr/bin/env", "NODE_NAME=" + m.Name, filepath.Join(l.Bin, "flannel"),
		"--kubeconfig=" + l.pki("admin.kubeconfig"),
		"--network=" + flannelConfigFile,
		"--subnet-file=" + flannelSubnetFile,
	}}
}

func (l Lab) flannelConfig() string {
	config := map[string]any{
		"EnableIPv4":     l.Plan.World.Has(topology.IPv4),
		"EnableIPv6":     l.Plan.World.Has(topology.IPv6),
		"EnableNFTables": true,
		"Backend":        map[string]any{"Type": "vxlan", "MTU": flannelMTU + flannelOverhead},
	}
	for _, p := range l.Plan.Pods() {
		if p.Addr().Is4() {
			config["Network"] = p
		} else {
			config["IPv6Network"] = p
		}
	}
	return string(jsonOf(config))
}
