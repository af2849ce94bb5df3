package explain

import (
	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/config"
)

// configurationOf returns the BGPConfigurations of a node merged into one, or nil if it has
// none.
func (v *view) configurationOf(node string) *bgpv1.BGPConfiguration {
	var labels map[string]string
	for i := range v.Nodes {
		if v.Nodes[i].Name == node {
			labels = v.Nodes[i].Labels
		}
	}
	selected := peering.Selected(v.peeringCluster().Configs, v.Namespace, labels)
	if len(selected) == 0 {
		return nil
	}
	return &bgpv1.BGPConfiguration{ObjectMeta: selected[0].ObjectMeta, Spec: peering.MergeConfigurations(selected, v.Namespace).Spec}
}

// peeringCluster returns what the status of BGPConfigurations depends on.
func (v *view) peeringCluster() peering.Cluster {
	c := peering.Cluster{Home: v.Namespace}
	for _, one := range v.Configurations {
		if config.InScope(one.Namespace, v.Namespace, v.BGPNamespaces) {
			c.Configs = append(c.Configs, one)
		}
	}
	for i := range v.Nodes {
		c.Nodes = append(c.Nodes, v.Nodes[i].Labels)
	}
	return c
}
