package agent

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/config"
)

// Reasons of events about LBNodeAgents.
const (
	eventConfigError     = "ConfigError"
	eventConfigIgnored   = "ConfigIgnored"
	eventInvalidSelector = "InvalidNodeSelector"
	eventLinkSilent      = "InterfaceSilent"
	eventNotStrict       = "ARPNotStrict"
)

// problemTold is a problem of the configuration as it was told.
type problemTold struct {
	about           corev1.ObjectReference
	reason, message string
}

// reportConfig reports the subnets of this node, and what is wrong with its
// configuration, when that is news.
func (r *reporter) reportConfig(seen *observation) {
	if !seen.Complete {
		return
	}
	if s := fmt.Sprint(seen.record.Subnets); s != r.subnets {
		r.subnets = s
		r.log.Info("subnetsChanged", "node", r.node, "subnets", seen.record.Subnets)
	}
	now := map[problemTold]bool{}
	for _, p := range r.problemsOf(seen) {
		now[p] = true
		if r.problems[p] {
			continue
		}
		r.log.Warn("configProblem", "lbnodeagent", p.about.Namespace+"/"+p.about.Name, "node", r.node,
			"reason", p.reason, "problem", p.message)
		r.event(&p.about, corev1.EventTypeWarning, p.reason, "%s", p.message)
	}
	r.problems = now
}

// problemsOf are the problems of the configuration that matter to this node.
func (r *reporter) problemsOf(seen *observation) []problemTold {
	var all []problemTold
	add := func(a config.Agent, reason, format string, args ...any) {
		all = append(all, problemTold{agentRef(a), reason, fmt.Sprintf(format, args...)})
	}
	switch p := seen.problem; {
	case seen.Broken:
		add(*seen.chosen, eventConfigError, "Node %s is announcing nothing new, and keeps what it has: %s", r.node, p)
	case p != "":
		add(*seen.chosen, eventConfigError, "Node %s is announcing nothing on its interfaces: %s", r.node, p)
	}
	for _, l := range seen.Node.Links {
		if l.Silent && seen.chosen != nil {
			add(*seen.chosen, eventLinkSilent, "Node %s hears no machine on interface %s, though other nodes should answer there: "+
				"they take its addresses; look at the switch port and its VLANs", r.node, l.Name)
		}
	}
	if seen.misled.IsValid() && seen.chosen != nil {
		add(*seen.chosen, eventNotStrict, "Node %s answers ARP for addresses that it does not hold, such as %s: kube-proxy in IPVS mode has "+
			"them on kube-ipvs0; set strictARP: true in its configuration (ipvs.strictARP), or net.ipv4.conf.all.arp_ignore to 1 on the node",
			r.node, seen.misled)
	}
	for _, a := range seen.overruled {
		add(a, eventConfigIgnored, "LBNodeAgent %s takes precedence on node %s", seen.record.Agent, r.node)
	}
	for _, p := range seen.Config.Problems {
		if p.Kind == config.KindLBNodeAgent && p.Field == "spec.nodeSelector" {
			add(config.Agent{Namespace: p.Namespace, Name: p.Name, UID: p.UID}, eventInvalidSelector, "%s", p)
		}
	}
	return all
}

// agentRef is a as an event names it.
func agentRef(a config.Agent) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: v2.GroupVersion.String(), Kind: config.KindLBNodeAgent, Namespace: a.Namespace, Name: a.Name, UID: a.UID,
	}
}

// overruled are the LBNodeAgents that select a node with these labels, but for
// the one that comes first and those that ask for nothing.
func overruled(c config.Config, node labels.Set, first *config.Agent) []config.Agent {
	return slices.DeleteFunc(slices.Concat(c.Agents, c.Broken), func(a config.Agent) bool {
		return a.Implied || !a.Selector.Matches(node) || first != nil && a.UID == first.UID
	})
}
