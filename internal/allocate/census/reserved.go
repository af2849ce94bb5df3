package census

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/groups"
	"purelb.io/purelb/internal/nodes/lease"
)

// reserved returns the addresses that no Service may get: addresses of nodes, gateways of nodes,
// and quarantined addresses. The values say what each address is.
func reserved(own, gateways nodeOf, quarantined map[netip.Addr]string) map[netip.Addr]string {
	all := maps.Clone(quarantined)
	if all == nil {
		all = map[netip.Addr]string{}
	}
	for a, node := range gateways {
		all[a] = "the default gateway of node " + node
	}
	for a, node := range own {
		all[a] = "an address of node " + node
	}
	return all
}

// nodeOf maps each address to the node that names it. Several nodes may name the same address:
// their common gateway, or an address that each has on its own bridge (docker0, virbr0). Then the
// first node by name is used, so that the order of objects does not matter.
type nodeOf map[netip.Addr]string

func (of nodeOf) note(a netip.Addr, node string) {
	if other, known := of[a]; !known || node < other {
		of[a] = node
	}
}

// nodeAddresses returns the nodes' own addresses: those in the Node objects, and those that the
// agents found.
func nodeAddresses(nodes []corev1.Node, leases []coordinationv1.Lease) nodeOf {
	of := nodeOf{}
	for _, l := range leases {
		for _, a := range lease.Addresses(&l) {
			of.note(a, lease.Node(&l))
		}
	}
	for _, n := range nodes {
		for _, na := range n.Status.Addresses {
			if a, err := netip.ParseAddr(na.Address); err == nil {
				of.note(a.Unmap().WithZone(""), n.Name)
			}
		}
	}
	return of
}

// gateways returns the routers that nodes have default routes to.
func gateways(leases []coordinationv1.Lease) nodeOf {
	of := nodeOf{}
	for _, l := range leases {
		for _, a := range lease.Gateways(&l) {
			of.note(a, lease.Node(&l))
		}
	}
	return of
}

// networksOf returns the networks that the cluster uses itself, sorted: those of the
// ClusterIPs of Services, and those of the pods of each node.
func networksOf(services []networkingv1.ServiceCIDR, nodes []corev1.Node) []groups.Network {
	var all []groups.Network
	add := func(format, cidr, node string) {
		if p, err := netip.ParsePrefix(cidr); err == nil {
			p = p.Masked()
			all = append(all, groups.Network{
				Range: addr.Range{From: p.Addr(), To: addr.Last(p)}, What: fmt.Sprintf(format, p, node),
			})
		}
	}
	for _, s := range services {
		for _, cidr := range s.Spec.CIDRs {
			add("the Service network %s%s", cidr, "")
		}
	}
	for _, n := range nodes {
		for _, cidr := range PodCIDRs(&n) {
			add("the pod network %s of node %s", cidr, n.Name)
		}
	}
	slices.SortFunc(all, func(a, b groups.Network) int {
		return cmp.Or(a.From.Compare(b.From), a.To.Compare(b.To), cmp.Compare(a.What, b.What))
	})
	return slices.Compact(all)
}

// PodCIDRs returns the networks of the pods of n.
func PodCIDRs(n *corev1.Node) []string {
	if len(n.Spec.PodCIDRs) == 0 && n.Spec.PodCIDR != "" {
		return []string{n.Spec.PodCIDR}
	}
	return n.Spec.PodCIDRs
}

// quarantined returns the addresses that agents report because machines outside the cluster
// claim them or answer for them. The values say what each address is.
//
// The allocator stores no quarantine: an address is in quarantine as long as an agent reports
// it. The agent remembers a report for 10 minutes, and probes again.
//
// Nodes of the cluster may also answer for addresses of Services (kube-proxy with IPVS). Such an
// address is not in quarantine. The report names the node, because its Lease may be gone. If the
// reporting agent did not know the node yet, the Lease of the node has the reported MAC. Agents of
// an earlier version do not publish MACs. While most agents do not, any machine may be one of their
// nodes, and no address is in quarantine. A few Leases without MACs do not end the quarantine.
// Otherwise, any account that may write one Lease could end it.
func quarantined(leases []coordinationv1.Lease) map[netip.Addr]string {
	nodes, known := macsOfNodes(leases)
	if !known {
		return nil
	}
	machines, first := map[netip.Addr]lease.MAC{}, nodeOf{}
	for _, l := range leases {
		for _, c := range lease.Claims(&l) {
			if nodes[c.MAC] || c.Node != "" {
				continue
			}
			first.note(c.Addr, lease.Node(&l))
			if first[c.Addr] == lease.Node(&l) {
				machines[c.Addr] = c.MAC
			}
		}
	}
	all := make(map[netip.Addr]string, len(machines))
	for a, mac := range machines {
		all[a] = fmt.Sprintf("an address of another machine, %s, as node %s reports", mac, first[a])
	}
	return all
}

// macsOfNodes returns the Ethernet addresses of all nodes that have a Lease. known is false
// if most do not publish theirs.
func macsOfNodes(leases []coordinationv1.Lease) (nodes map[lease.MAC]bool, known bool) {
	nodes = map[lease.MAC]bool{}
	unknown := 0
	for _, l := range leases {
		macs, said := lease.MACs(&l)
		if !said {
			unknown++
		}
		for _, mac := range macs {
			nodes[mac] = true
		}
	}
	return nodes, 2*unknown <= len(leases)
}

// Unreached returns the pools of g that no node announces, because no node has an
// interface in their networks. Only local groups have such pools.
func Unreached(g groups.Group, subnets []netip.Prefix) []groups.Pool {
	if g.Announce != groups.AnnounceLocal {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(g.Pools), func(p groups.Pool) bool {
		return slices.ContainsFunc(subnets, p.Subnet.Overlaps)
	})
}
