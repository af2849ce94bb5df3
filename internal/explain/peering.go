package explain

import (
	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/bgp/peering"
)

// configurationOf returns the BGPConfiguration that counts on a node, or nil if there is none. For
// "" it is the one of nodes without labels.
func (v *view) configurationOf(node string) *bgpv1.BGPConfiguration {
	var labels map[string]string
	for i := range v.Nodes {
		if v.Nodes[i].Name == node {
			labels = v.Nodes[i].Labels
		}
	}
	return peering.Chosen(v.peeringCluster().Configs, labels)
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
