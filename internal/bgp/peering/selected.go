package peering

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
)

// DefaultConfiguration is the name of the BGPConfiguration that is for all nodes.
const DefaultConfiguration = "default"

// ForAll returns the BGPConfiguration that is in effect on all nodes, or nil. It is the one called
// default, or the only one without a nodeSelector. If the one called default has a nodeSelector,
// ForAll returns nil, because another one could be a draft. ForAll ignores a configuration that is
// being deleted.
//
// It uses BGPConfigurations of further namespaces only if there is none in home.
func ForAll(configs []bgpv1.BGPConfiguration, home string) *bgpv1.BGPConfiguration {
	alive := Alive(configs, home)
	here := slices.DeleteFunc(slices.Clone(alive), func(c *bgpv1.BGPConfiguration) bool { return c.Namespace != home })
	if len(here) > 0 {
		alive = here
	}
	var plain []*bgpv1.BGPConfiguration
	for _, c := range alive {
		if c.Name == DefaultConfiguration {
			if c.Spec.NodeSelector != nil {
				return nil
			}
			return c
		}
		if c.Spec.NodeSelector == nil {
			plain = append(plain, c)
		}
	}
	if len(plain) == 1 {
		return plain[0]
	}
	return nil
}

// Alive returns the BGPConfigurations that are not being deleted, the oldest first. Among those of
// the same age, the ones called default come first, then the ones in home.
func Alive(configs []bgpv1.BGPConfiguration, home string) []*bgpv1.BGPConfiguration {
	var alive []*bgpv1.BGPConfiguration
	for i := range configs {
		if configs[i].DeletionTimestamp.IsZero() {
			alive = append(alive, &configs[i])
		}
	}
	slices.SortStableFunc(alive, func(a, b *bgpv1.BGPConfiguration) int {
		return cmp.Or(
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			trueLast(a.Name != DefaultConfiguration, b.Name != DefaultConfiguration),
			trueLast(a.Namespace != home, b.Namespace != home),
			cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Name, b.Name),
		)
	})
	return alive
}

// Selected returns the BGPConfigurations in effect on a node with these labels, in the order
// in which MergeConfigurations merges them: the one for all nodes, and those whose nodeSelector selects the
// node. A malformed selector selects no node.
func Selected(configs []bgpv1.BGPConfiguration, home string, node map[string]string) []*bgpv1.BGPConfiguration {
	base := ForAll(configs, home)
	return slices.DeleteFunc(Alive(configs, home), func(c *bgpv1.BGPConfiguration) bool {
		if c.Spec.NodeSelector == nil {
			return c != base
		}
		selector, err := metav1.LabelSelectorAsSelector(c.Spec.NodeSelector)
		return err != nil || !selector.Matches(labels.Set(node))
	})
}

// Ref returns the name of c for problems. It includes the namespace if that is not home.
func Ref(c *bgpv1.BGPConfiguration, home string) string {
	if c.Namespace == home {
		return c.Name
	}
	return c.Namespace + "/" + c.Name
}
