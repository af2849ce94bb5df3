package peering

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
)

// ReasonNotInEffect is the reason of a BGPConfiguration that nodes do not use.
const ReasonNotInEffect = "NotInEffect"

// Cluster is what the status of BGPConfigurations depends on.
type Cluster struct {
	Configs []bgpv1.BGPConfiguration
	// Nodes holds the labels of all nodes.
	Nodes []map[string]string
}

// CommonStatus returns the status of c, one of the BGPConfigurations of the cluster. It has the
// problems of c on every node. Problems that depend on other facts of a node than its labels are Here, and are left out.
func (cl Cluster) CommonStatus(c *bgpv1.BGPConfiguration, secrets Secrets, now time.Time) bgpv1.BGPConfigurationStatus {
	if text := cl.OutOfEffect(c); text != "" {
		ready := condition(bgpv1.ConditionReady, false, ReasonNotInEffect, text)
		return configurationStatus(c.Generation, len(c.Spec.Neighbors), c.Status, now, ready)
	}
	d := Decision{Configured: len(c.Spec.Neighbors), Problems: cl.Problems(c, secrets)}
	return ConfigurationStatus(c.Generation, d, c.Status, now)
}

// Problems returns the problems of c on the nodes on which it counts, without those that are Here.
func (cl Cluster) Problems(c *bgpv1.BGPConfiguration, secrets Secrets) []Problem {
	nowhere := func(netip.Addr) (Egress, bool) { return Egress{}, false }
	all := slices.DeleteFunc(Decide(c.Spec, Node{}, secrets, nowhere).Problems, func(p Problem) bool { return p.Here })
	of := cl.nodesOf(c)
	if c.Spec.NodeSelector != nil && len(of.rivals) > 0 {
		all = append(all, Problem{
			Field: "spec.nodeSelector", Reason: ReasonNotInEffect,
			Message: fmt.Sprintf("%d of the %d nodes that it selects use %s", of.selected-of.counts, of.selected, of.instead()),
		})
	}
	id := c.Spec.Global.RouterID
	if nodes := cl.withRouterID(id); nodes > 1 {
		all = append(all, Problem{
			Field: "spec.global.routerID", Reason: ReasonConflict,
			Message: fmt.Sprintf("%d nodes have the router ID %s, and route reflectors drop routes between them: write ${NODE_IP}, or remove it", nodes, id),
		})
	}
	return all
}

// withRouterID returns how many nodes have this router ID from their BGPConfiguration. A template is none.
func (cl Cluster) withRouterID(id string) int {
	if _, err := netip.ParseAddr(id); err != nil {
		return 0
	}
	nodes := 0
	for _, labels := range cl.Nodes {
		if c := Chosen(cl.Configs, labels); c != nil && c.Spec.Global.RouterID == id {
			nodes++
		}
	}
	return nodes
}

// share says on which of the nodes that it selects a BGPConfiguration counts.
type share struct {
	selected, counts int
	// rivals are the names of those that count on the others.
	rivals []string
}

// nodesOf returns the share of c. If no node is known, the only one has no labels.
func (cl Cluster) nodesOf(c *bgpv1.BGPConfiguration) share {
	nodes := cl.Nodes
	if len(nodes) == 0 {
		nodes = []map[string]string{nil}
	}
	var s share
	for _, labels := range nodes {
		if selected, _ := Selects(c.Spec.NodeSelector, labels); !selected {
			continue
		}
		s.selected++
		if rival := Chosen(cl.Configs, labels); rival == nil || rival.Name == c.Name {
			s.counts++
		} else if !slices.Contains(s.rivals, rival.Name) {
			s.rivals = append(s.rivals, rival.Name)
		}
	}
	slices.Sort(s.rivals)
	return s
}

// instead says what the other nodes use, and how c can count there.
func (s share) instead() string {
	return "the BGPConfiguration " + strings.Join(s.rivals, ", ") +
		", and only one counts on a node: write all that is for a node into one, or let spec.nodeSelector select different nodes"
}

// OutOfEffect says why no node uses c, or returns "".
func (cl Cluster) OutOfEffect(c *bgpv1.BGPConfiguration) string {
	if _, err := Selects(c.Spec.NodeSelector, nil); err != nil {
		return fmt.Sprintf("spec.nodeSelector selects no node: %v: correct it", err)
	}
	of := cl.nodesOf(c)
	switch {
	case of.counts > 0:
		return ""
	case of.selected > 0:
		return "nodes use " + of.instead()
	case len(cl.Nodes) > 0:
		return fmt.Sprintf("spec.nodeSelector matches none of the %d nodes", len(cl.Nodes))
	}
	return "" // no node is known
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
