package peering

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
)

// ReasonNotInEffect is the reason of a BGPConfiguration that nodes do not use.
const ReasonNotInEffect = "NotInEffect"

// Cluster is what the status of BGPConfigurations depends on.
type Cluster struct {
	Configs []bgpv1.BGPConfiguration
	// Home is the install namespace.
	Home string
	// Nodes holds the labels of all nodes.
	Nodes []map[string]string
}

// CommonStatus returns the status of c, one of the BGPConfigurations of the cluster. It has the
// problems of c on every node, and the conflicts on nodes that several BGPConfigurations select.
//
// Problems that depend on other facts of a node are Here, and are left out.
func (cl Cluster) CommonStatus(c *bgpv1.BGPConfiguration, secrets Secrets, now time.Time) bgpv1.BGPConfigurationStatus {
	if text := cl.OutOfEffect(c); text != "" {
		ready := condition(bgpv1.ConditionReady, false, ReasonNotInEffect, text)
		return configurationStatus(c.Generation, len(c.Spec.Neighbors), c.Status, now, ready)
	}
	d := Decision{Configured: len(c.Spec.Neighbors), Problems: cl.Problems(c, secrets)}
	return ConfigurationStatus(c.Generation, d, c.Status, now)
}

// Problems returns the problems of c on the nodes that it selects, without those that are Here.
func (cl Cluster) Problems(c *bgpv1.BGPConfiguration, secrets Secrets) []Problem {
	nowhere := func(netip.Addr) (Egress, bool) { return Egress{}, false }
	var all []Problem
	for _, selected := range cl.selections(c) {
		m := MergeConfigurations(selected, cl.Home)
		for _, p := range of(m.Decide(Node{}, secrets, nowhere).Problems, Ref(c, cl.Home), m.Several()) {
			if !p.Here && !slices.Contains(all, p) {
				all = append(all, p)
			}
		}
	}
	if p, shared := cl.sharedRouterID(c); shared {
		all = append(all, p)
	}
	return all
}

// sharedRouterID returns a problem if several nodes have the router ID of c. The router ID of a
// node is that of its first BGPConfiguration that sets one, as in a merge.
func (cl Cluster) sharedRouterID(c *bgpv1.BGPConfiguration) (Problem, bool) {
	id := c.Spec.Global.RouterID
	if _, err := netip.ParseAddr(id); err != nil {
		return Problem{}, false
	}
	nodes := 0
	for _, labels := range cl.Nodes {
		selected := Selected(cl.Configs, cl.Home, labels)
		first := slices.IndexFunc(selected, func(s *bgpv1.BGPConfiguration) bool { return s.Spec.Global.RouterID != "" })
		if first >= 0 && selected[first].Spec.Global.RouterID == id {
			nodes++
		}
	}
	return Problem{
		Field: "spec.global.routerID", Reason: ReasonConflict,
		Message: fmt.Sprintf("%d nodes have the router ID %s, and route reflectors drop routes between them: write ${NODE_IP}, or remove it", nodes, id),
	}, nodes > 1
}

// selections returns the different sets of BGPConfigurations that are selected for nodes, if they
// contain c. If no node is known, it returns one set with c alone.
func (cl Cluster) selections(c *bgpv1.BGPConfiguration) [][]*bgpv1.BGPConfiguration {
	if len(cl.Nodes) == 0 {
		return [][]*bgpv1.BGPConfiguration{{c}}
	}
	var all [][]*bgpv1.BGPConfiguration
	for _, labels := range cl.Nodes {
		selected := Selected(cl.Configs, cl.Home, labels)
		if slices.Contains(selected, c) && !slices.ContainsFunc(all, func(s []*bgpv1.BGPConfiguration) bool { return slices.Equal(s, selected) }) {
			all = append(all, selected)
		}
	}
	return all
}

// OutOfEffect says why no node uses c, or returns "".
func (cl Cluster) OutOfEffect(c *bgpv1.BGPConfiguration) string {
	if s := c.Spec.NodeSelector; s != nil {
		_, err := metav1.LabelSelectorAsSelector(s)
		switch {
		case err != nil:
			return fmt.Sprintf("spec.nodeSelector selects no node: %v: correct it", err)
		case len(cl.selections(c)) == 0:
			return fmt.Sprintf("spec.nodeSelector matches none of the %d nodes", len(cl.Nodes))
		}
		return ""
	}
	base := ForAll(cl.Configs, cl.Home)
	switch {
	case base == c:
		return ""
	case base != nil:
		return "nodes use the BGPConfiguration " + Ref(base, cl.Home)
	}
	for _, other := range Alive(cl.Configs, cl.Home) {
		if other.Name == DefaultConfiguration {
			return "nodes use BGPConfigurations with a spec.nodeSelector, as the one called " + DefaultConfiguration + " has one: give this one a nodeSelector too"
		}
	}
	return "nodes use the BGPConfiguration called " + DefaultConfiguration + ": there are several, and none has that name"
}

// Secret is the known state of a Secret.
type Secret struct {
	Data map[string][]byte
	// Known says that the Secret, or its absence, was seen.
	Known, Exists bool
	// Forbidden says that the API server refuses to show it.
	Forbidden bool
}

// Value returns the value of key in s, the Secret of that name. The error says what is wrong,
// and how to fix it.
func (s Secret) Value(namespace, name, key string) (string, error) {
	value, found := s.Data[key]
	switch {
	case found:
		return string(value), nil
	case s.Forbidden:
		return "", fmt.Errorf("there is no right to read the secret %s/%s: add %s to gobgp.passwordSecrets in the values of the chart", namespace, name, name)
	case !s.Known:
		return "", fmt.Errorf("secret %s/%s cannot be read yet", namespace, name)
	case !s.Exists:
		return "", fmt.Errorf("secret %s/%s does not exist", namespace, name)
	}
	return "", fmt.Errorf("secret %s/%s has no key %q", namespace, name, key)
}
