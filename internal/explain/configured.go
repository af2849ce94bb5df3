package explain

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/config"
)

// NodeAgent explains an LBNodeAgent: which nodes it is in force on, and what is wrong with it.
func NodeAgent(w World, name string) (Story, error) {
	v := newView(w)
	for _, a := range v.Agents {
		if o := (Object{config.KindLBNodeAgent, a.Namespace, a.Name}); v.isNamed(o, name) {
			return v.configuring(o, KindAgents, slices.Concat(v.checkObjects(), v.checkAgents()), func(n corev1.Node) bool {
				in, ok := v.state.Config.AgentFor(n.Labels)
				return ok && in.Namespace == a.Namespace && in.Name == a.Name
			}), nil
		}
	}
	return Story{}, w.missing("LBNodeAgent", name, KindAgents)
}

// Configuration explains a BGPConfiguration: which nodes it is in force on, and what is wrong with it.
func Configuration(w World, name string) (Story, error) {
	v := newView(w)
	for _, c := range v.Configurations {
		if o := (Object{"BGPConfiguration", c.Namespace, c.Name}); v.isNamed(o, name) {
			of := v.peeringCluster().Configs
			return v.configuring(o, KindConfigurations, v.checkPeering(), func(n corev1.Node) bool {
				in := peering.Chosen(of, n.Labels)
				return in != nil && in.Namespace == c.Namespace && in.Name == c.Name
			}), nil
		}
	}
	return Story{}, w.missing("BGPConfiguration", name, KindConfigurations)
}

// isNamed reports whether name means o: "name" in PureLB's namespace, or "namespace/name".
func (w World) isNamed(o Object, name string) bool {
	return name == o.Namespace+"/"+o.Name || o.Namespace == w.Namespace && name == o.Name
}

// missing returns the error about an object that is not there, or that may not be there.
func (w World) missing(what, name, kind string) error {
	if err := w.needs("whether there is "+what+" "+name, kind); err != nil {
		return err
	}
	return fmt.Errorf("there is no %s %q", what, name)
}

// configuring explains o by the checks about it, and by the nodes that it is in force on.
func (v *view) configuring(o Object, kind string, checks []Check, inForce func(corev1.Node) bool) Story {
	s := Story{Subject: o.String(), Unread: v.unread(kind, KindNodes)}
	var nodes, wrong []string
	for _, n := range v.Nodes {
		if inForce(n) {
			nodes = append(nodes, n.Name)
		}
	}
	switch why := v.unknown(KindNodes); {
	case why != "":
		s.setSummary(false, "", fmt.Sprintf("%s is accepted; which nodes it is in force on is %s", o, why))
	case len(nodes) == 0:
		s.setSummary(false, "", fmt.Sprintf("%s is accepted, and in force on no node", o))
	default:
		s.setSummary(false, "", fmt.Sprintf("%s is in force on %s", o, list(nodes)))
	}
	for _, c := range checks {
		if c.Object == o.String() && c.Status != Pass {
			if len(wrong) == 0 {
				s.setSummary(true, c.Code, c.Message)
			}
			wrong = append(wrong, c.Message)
		}
	}
	if len(wrong) > 1 {
		s.add("What is wrong", wrong...)
	}
	s.add("Nodes", nodes...)
	return s
}
