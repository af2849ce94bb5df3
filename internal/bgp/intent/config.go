package intent

import (
	"k8s.io/apimachinery/pkg/types"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/bgp/peering"
)

// Config is the configuration of this node: the BGPConfiguration that counts on it.
type Config struct {
	// Namespace, Name and UID identify the BGPConfiguration, the object of events.
	Namespace, Name string
	UID             types.UID
	Generation      int64
	Spec            bgpv1.BGPConfigurationSpec
}

// ConfigOf returns the configuration of a node with these labels, or nil if it has none.
func ConfigOf(configs []bgpv1.BGPConfiguration, node map[string]string) *Config {
	c := peering.Chosen(configs, node)
	if c == nil {
		return nil
	}
	return &Config{Namespace: c.Namespace, Name: c.Name, UID: c.UID, Generation: c.Generation, Spec: c.Spec}
}
