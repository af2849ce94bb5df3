package intent

import (
	"k8s.io/apimachinery/pkg/types"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/bgp/peering"
)

// Config is the configuration of this node: the BGPConfigurations that select it.
type Config struct {
	// Namespace, Name and UID identify the oldest BGPConfiguration, the object of events.
	Namespace, Name string
	UID             types.UID
	// Generation changes when one of the BGPConfigurations changes.
	Generation int64
	peering.Merged
}

// ConfigOf returns the configuration of a node with these labels, or nil if it has none.
func ConfigOf(s Snapshot, namespace string, node map[string]string) *Config {
	selected := peering.Selected(s.Configs, namespace, node)
	if len(selected) == 0 {
		return nil
	}
	first, merged := selected[0], peering.MergeConfigurations(selected, namespace)
	return &Config{Namespace: first.Namespace, Name: first.Name, UID: first.UID, Generation: merged.Generation(), Merged: merged}
}

// Names returns the names of the BGPConfigurations. A stored input of an earlier version has
// only one name.
func (c *Config) Names() []string {
	if len(c.Parts) == 0 {
		return []string{c.Name}
	}
	var names []string
	for _, p := range c.Parts {
		names = append(names, p.Name)
	}
	return names
}

// NamesOf returns the names of all BGPConfigurations that are not being deleted.
func NamesOf(configs []bgpv1.BGPConfiguration, namespace string) []string {
	var names []string
	for _, c := range peering.Alive(configs, namespace) {
		names = append(names, peering.Ref(c, namespace))
	}
	return names
}
