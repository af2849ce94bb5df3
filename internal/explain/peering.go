package explain

import (
	"net/netip"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/config"
)

// configurationOf returns the BGPConfiguration that counts on a node, or nil if there is none. For
// "" it is the one of nodes without labels.
func (v *view) configurationOf(node string) *bgpv1.BGPConfiguration {
	return peering.Chosen(v.peeringCluster().Configs, v.labelsOf(node))
}

// peeringCluster returns what the status of BGPConfigurations depends on.
func (v *view) peeringCluster() peering.Cluster {
	var c peering.Cluster
	for _, one := range v.Configurations {
		if one.Namespace == v.Namespace {
			c.Configs = append(c.Configs, one)
		}
	}
	for i := range v.Nodes {
		c.Nodes = append(c.Nodes, v.Nodes[i].Labels)
	}
	return c
}

// named returns the addresses of those neighbors of a node to which the group of ip is announced.
func (v *view) named(ip netip.Addr, node string, neighbors []bgpv1.NodeNeighbor) (all []string) {
	names, c := v.peersOf(ip, node), v.configurationOf(node)
	for _, n := range neighbors {
		group := ""
		if entry := entryOf(c, n); entry != nil {
			group = entry.Config.PeerGroup
		}
		address, _ := netip.ParseAddr(n.Address)
		if p := (peering.Peer{Address: address, Interface: n.Interface}); len(names) == 0 || p.Named(names, group) {
			all = append(all, n.Address)
		}
	}
	return all
}

// peersOf returns the names of the neighbors of a node to which the group of ip is announced, or nil for all.
func (v *view) peersOf(ip netip.Addr, node string) (names []string) {
	g, _, ok := v.state.Config.Groups.GroupOf(ip)
	o := v.groupObject(g)
	if !ok || o == nil || o.Spec.BGP == nil {
		return nil
	}
	for _, one := range config.Advertisements(*o.Spec.BGP) {
		if one.NodeSelector != nil && !v.selects(one.NodeSelector, node) {
			continue
		}
		if len(one.Peers) == 0 {
			return nil
		}
		for _, p := range one.Peers {
			names = append(names, string(p))
		}
	}
	return names
}

// selects reports whether a selector selects a node.
func (v *view) selects(s *metav1.LabelSelector, node string) bool {
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && v.nodeObject(node) != nil && selector.Matches(labels.Set(v.labelsOf(node)))
}
