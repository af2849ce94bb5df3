package peering

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
)

// defaultConfiguration is the name of the BGPConfiguration that comes first of those for all nodes.
const defaultConfiguration = "default"

// Chosen returns the BGPConfiguration of a node with these labels: the oldest one whose
// nodeSelector selects the node. If there is none, it is one without a nodeSelector: the one called
// default, or the oldest. Chosen returns nil if there is none of either kind. A BGPConfiguration that is
// being deleted does not count.
func Chosen(configs []bgpv1.BGPConfiguration, node map[string]string) *bgpv1.BGPConfiguration {
	var chosen *bgpv1.BGPConfiguration
	for i := range configs {
		c := &configs[i]
		selected, _ := Selects(c.Spec.NodeSelector, node)
		if selected && c.DeletionTimestamp.IsZero() && (chosen == nil || before(c, chosen)) {
			chosen = c
		}
	}
	return chosen
}

// Selects reports whether a selector selects a node with these labels. Without a selector, every node is selected. A
// malformed one selects no node.
func Selects(s *metav1.LabelSelector, node map[string]string) (bool, error) {
	if s == nil {
		return true, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && selector.Matches(labels.Set(node)), err
}

// before reports whether a counts on a node that both select.
func before(a, b *bgpv1.BGPConfiguration) bool {
	forAll := func(c *bgpv1.BGPConfiguration) bool { return c.Spec.NodeSelector == nil }
	draft := func(c *bgpv1.BGPConfiguration) bool { return forAll(c) && c.Name != defaultConfiguration }
	return cmp.Or(
		TrueLast(forAll(a), forAll(b)),
		TrueLast(draft(a), draft(b)),
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(a.Name, b.Name),
	) < 0
}
