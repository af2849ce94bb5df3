package explain

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/service"
)

// Node explains what a node announces, and what prevents it from announcing.
func Node(w World, name string) (Story, error) {
	v := newView(w)
	s := Story{Subject: "Node " + name, Unread: v.unread(KindLeases, KindNodes, KindAgents, KindServices)}
	n, leased := v.node(name)
	i := slices.IndexFunc(v.Nodes, func(o corev1.Node) bool { return o.Name == name })
	if err := w.needs("whether there is a node "+name, KindNodes, KindLeases); !leased && i < 0 && err != nil {
		return s, err
	}
	if !leased && i < 0 {
		return s, fmt.Errorf("there is neither a node %q nor a Lease of one", name)
	}
	switch {
	case i >= 0 && unready(v.Nodes[i]) != "":
		s.setSummary(true, "", "node "+name+" is not ready: "+unready(v.Nodes[i]))
		if leased && !n.Alive {
			s.Summary += "; the Lease of its agent ended " + short(n.expires.Sub(v.Now)) + " ago"
		}
	case !leased && !v.knows(KindLeases):
		s.setSummary(true, "", "what node "+name+" announces is "+v.unknown(KindLeases))
	case !leased:
		s.setSummary(true, "", fmt.Sprintf("no agent has run on node %s: it has no Lease, so it announces nothing%s", name, v.podOf(name)))
	case !n.Alive:
		s.setSummary(true, "", fmt.Sprintf("the agent of node %s does not run or does not reach the API server: its Lease ended %s ago%s", name, short(n.expires.Sub(v.Now)), v.podOf(name)))
	case i >= 0 && v.knows(KindAgents) && !v.configured(v.Nodes[i]):
		s.setSummary(true, "", "no usable LBNodeAgent is for node "+name+", so it announces nothing")
	case n.problem != "":
		s.setSummary(true, "", "node "+name+" announces less than it should: "+n.problem)
	case v.gossipProblem(n) != "":
		s.setSummary(true, "", v.gossipProblem(n))
	case n.draining != "":
		s.setSummary(false, "", "node "+name+" comes last in elections: "+n.draining)
	case len(n.Subnets) == 0:
		s.setSummary(true, "", "node "+name+" can announce no local address: its agent found no interface with a network")
	default:
		s.setSummary(false, "", "node "+name+" can announce local addresses of "+texts(n.Subnets))
	}
	if i >= 0 {
		s.add("LBNodeAgent", v.agentFor(v.Nodes[i].Labels)...)
	}
	v.addAnnounced(&s, name)
	for _, b := range v.NodeStatuses {
		if b.Status.NodeName == name {
			one := v.bgpNode(b.Status)
			line := fmt.Sprintf("%d of %d sessions are established", one.Established, one.Neighbors)
			if one.Message != "" {
				line += "; " + one.Message
			}
			s.add("BGP", line)
			if !one.Healthy && !s.Problem {
				s.setSummary(true, "", "BGP is not healthy on node "+name+": "+one.Message+"; otherwise, "+s.Summary)
			}
		}
	}
	v.addAgent(&s, name)
	return s, nil
}

// unready says why Kubernetes considers n not ready, or returns "".
func unready(n corev1.Node) string {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			return cmp.Or(c.Message, c.Reason, "its condition Ready is "+string(c.Status))
		}
	}
	return ""
}

// configured reports whether a usable LBNodeAgent selects n.
func (v *view) configured(n corev1.Node) bool {
	_, ok := v.state.Config.AgentFor(n.Labels)
	return ok
}

// podOf returns the end of a sentence about the agent of a node: the state of its pod.
func (v *view) podOf(node string) string {
	if why := v.unknown(KindPods); why != "" {
		return "; whether its pod runs is " + why
	}
	for _, p := range v.Pods {
		if p.Spec.NodeName != node || ContainerOf(&p.Spec, agentContainer) == nil {
			continue
		}
		if waits := notReady(p, agentContainer); waits != "" {
			return "; its pod " + p.Name + " is not ready: " + waits
		}
		return "; its pod " + p.Name + " is ready"
	}
	text := "; there is no pod of the DaemonSet lbnodeagent on it"
	for _, n := range v.Nodes {
		if n.Name == node && len(hardTaints(n)) > 0 {
			text += ", and it has the taints " + list(hardTaints(n)) + ", which the DaemonSet may not tolerate"
		}
	}
	return text
}

// hardTaints are the taints of n that keep pods away.
func hardTaints(n corev1.Node) []string {
	var keys []string
	for _, t := range n.Spec.Taints {
		if t.Effect != corev1.TaintEffectPreferNoSchedule {
			keys = append(keys, t.Key)
		}
	}
	return keys
}

// agentFor says which LBNodeAgent is in force on a node with these labels, and why the others
// are not.
func (v *view) agentFor(set map[string]string) []string {
	if why := v.unknown(KindAgents); why != "" {
		return []string{"which one is in force is " + why}
	}
	name := func(a config.Agent) string { return a.Namespace + "/" + a.Name }
	var lines []string
	chosen, ok := v.state.Config.AgentFor(set)
	if broken, is := v.state.Config.BrokenFor(set); is {
		lines = append(lines, name(broken)+" would be in force, and cannot be used; the node uses no other in its place")
	}
	if ok {
		lines = append(lines, name(chosen)+" is in force")
	}
	for _, a := range v.state.Config.Agents {
		switch {
		case ok && a.UID == chosen.UID && name(a) == name(chosen):
		case !a.Selector.Matches(labels.Set(set)):
			lines = append(lines, name(a)+" is not, because its nodeSelector ("+a.Selector.String()+") does not match the labels of the node")
		default:
			lines = append(lines, name(a)+" is not, because another that selects the node comes first")
		}
	}
	if len(lines) == 0 {
		lines = []string{"none is for this node, so it announces nothing"}
	}
	return lines
}

// addAnnounced lists the local addresses of a node.
func (v *view) addAnnounced(s *Story, name string) {
	var has, toGet []string
	for _, o := range v.addresses() {
		if o.Where != announce.Local {
			continue
		}
		at, _ := service.SlotOf(slots(v.objects[o.Service]), o.IP)
		switch {
		case at.Node == name:
			has = append(has, o.IP.String()+" of "+o.Service)
		case o.Choice.Node == name && !o.Undecided:
			toGet = append(toGet, o.IP.String()+" of "+o.Service+": "+o.Why())
		}
	}
	s.add("Local addresses that it announces", has...)
	s.add("Local addresses that it is to take", toGet...)
}
