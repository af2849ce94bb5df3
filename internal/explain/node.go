package explain

import (
	"cmp"
	"fmt"

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
	n, o := v.leased(name), v.nodeObject(name)
	if err := w.needs("whether there is a node "+name, KindNodes, KindLeases); n == nil && o == nil && err != nil {
		return s, err
	}
	switch {
	case n == nil && o == nil:
		return s, fmt.Errorf("there is neither a node %q nor a Lease of one", name)
	case o != nil && unready(*o) != "":
		s.setSummary(true, "", "node "+name+" is not ready: "+unready(*o))
		if n != nil && !n.Alive {
			s.Summary += "; the Lease of its agent ended " + short(n.expires.Sub(v.Now)) + " ago"
		}
	case v.trouble(name) != "":
		s.setSummary(true, "", v.trouble(name))
	case v.gossipProblem(*n) != "":
		s.setSummary(true, "", v.gossipProblem(*n))
	case n.draining != "":
		s.setSummary(false, "", "node "+name+" comes last in elections: "+n.draining)
	case len(n.Subnets) == 0:
		s.setSummary(true, "", "node "+name+" can announce no local address: its agent found no interface with a network")
	default:
		s.setSummary(false, "", "node "+name+" can announce local addresses of "+joined(n.Subnets))
	}
	if o != nil {
		s.add("LBNodeAgent", v.agentFor(o.Labels)...)
	}
	v.addAnnounced(&s, name)
	for _, speaker := range v.speakers(name) {
		one := v.bgpNode(speaker)
		line := fmt.Sprintf("%d of %d sessions are established", one.Established, one.Neighbors)
		if one.Message != "" {
			line += "; " + one.Message
		}
		s.add("BGP", line)
		if !one.Healthy && !s.Problem {
			s.setSummary(true, "", "BGP is not healthy on node "+name+": "+one.Message+"; otherwise, "+s.Summary)
		}
	}
	v.addAgent(&s, name)
	return s, nil
}

// trouble says why a node announces nothing, or less than it should, or returns "".
func (v *view) trouble(name string) string {
	n, o := v.leased(name), v.nodeObject(name)
	switch {
	case n == nil && !v.knows(KindLeases):
		return "what node " + name + " announces is " + v.unknown(KindLeases)
	case n == nil:
		return fmt.Sprintf("no agent has run on node %s: it has no Lease, so it announces nothing%s", name, v.podOf(name))
	case !n.Alive:
		return fmt.Sprintf("the agent of node %s does not run or does not reach the API server: its Lease ended %s ago%s", name, short(n.expires.Sub(v.Now)), v.podOf(name))
	case o != nil && v.knows(KindAgents) && !v.configured(*o):
		return "no usable LBNodeAgent is for node " + name + ", so it announces nothing"
	case n.problem != "":
		return "node " + name + " announces less than it should: " + n.problem
	}
	return ""
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
	pod := find(v.Pods, func(p corev1.Pod) bool { return p.Spec.NodeName == node && ContainerOf(&p.Spec, agentContainer) != nil })
	taints := v.hardTaints(node)
	switch {
	case pod != nil && notReady(*pod, agentContainer) != "":
		return "; its pod " + pod.Name + " is not ready: " + notReady(*pod, agentContainer)
	case pod != nil:
		return "; its pod " + pod.Name + " is ready"
	case len(taints) > 0:
		return "; there is no pod of the DaemonSet lbnodeagent on it, and it has the taints " + list(taints) + ", which the DaemonSet may not tolerate"
	}
	return "; there is no pod of the DaemonSet lbnodeagent on it"
}

// hardTaints are the taints of a node that keep pods away. Such a node may be without an agent on purpose.
func (v *view) hardTaints(node string) (keys []string) {
	if n := v.nodeObject(node); n != nil {
		for _, t := range n.Spec.Taints {
			if t.Effect != corev1.TaintEffectPreferNoSchedule {
				keys = append(keys, t.Key)
			}
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
