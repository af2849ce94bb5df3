package explain

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// HostPort is a port of a node that a pod has.
type HostPort struct {
	Node, Pod string
	Protocol  corev1.Protocol
	Port      int32
}

// HostPortsOf returns the ports of its node that p declares. A pod on the network of the node may
// use other ports and not declare them.
func HostPortsOf(p *corev1.Pod) []HostPort {
	if p.Spec.NodeName == "" || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return nil
	}
	var all []HostPort
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		for _, port := range c.Ports {
			number := port.HostPort
			if number == 0 && p.Spec.HostNetwork {
				number = port.ContainerPort
			}
			if number != 0 {
				all = append(all, HostPort{p.Spec.NodeName, p.Namespace + "/" + p.Name, cmp.Or(port.Protocol, corev1.ProtocolTCP), number})
			}
		}
	}
	return all
}

// need is a port of every node that PureLB needs.
type need struct {
	protocol corev1.Protocol
	port     int32
	// program needs the port. agent says that it is the agent; the speaker is for BGP only.
	program string
	agent   bool
}

// usualNeeds are the ports that the chart has by default.
var usualNeeds = []need{
	{corev1.ProtocolTCP, 7472, "the agent (metrics)", true},
	{corev1.ProtocolTCP, 7934, "the agent (gossip)", true},
	{corev1.ProtocolUDP, 7934, "the agent (gossip)", true},
	{corev1.ProtocolTCP, 7473, "the speaker (metrics)", false},
	{corev1.ProtocolTCP, 7474, "the speaker (probes of the kubelet)", false},
	{corev1.ProtocolUDP, 3784, "the speaker (BFD)", false},
	{corev1.ProtocolUDP, 4784, "the speaker (BFD over several hops)", false},
}

// needs returns the ports that the programs need: the ports of the pods, if there are pods.
func (v *view) needs() []need {
	var all []need
	for i := range v.Pods {
		p := &v.Pods[i]
		if !p.Spec.HostNetwork {
			continue
		}
		for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
			for _, port := range c.Ports {
				n := need{cmp.Or(port.Protocol, corev1.ProtocolTCP), port.ContainerPort, c.Name + " (" + port.Name + ")", c.Name == agentContainer}
				if !slices.Contains(all, n) {
					all = append(all, n)
				}
			}
		}
	}
	if len(all) == 0 {
		return usualNeeds
	}
	return all
}

// mostPorts is how many pods a check names.
const mostPorts = 4

// checkPorts finds pods that use a port of their node that PureLB needs. The program that starts
// later cannot use the port, and fails.
func checkPorts(v *view, f Facts) result {
	var r result
	for _, n := range v.needs() {
		var taken []HostPort
		for _, h := range f.HostPorts {
			if h.Protocol == n.protocol && h.Port == n.port {
				taken = append(taken, h)
			}
		}
		if len(taken) == 0 {
			continue
		}
		var pods []string
		for _, h := range taken[:min(len(taken), mostPorts)] {
			pods = append(pods, h.Pod+" on node "+h.Node)
		}
		text := fmt.Sprintf("%s port %d of %s is that of pod %s, and %s needs it there", n.protocol, n.port, counted(len(taken), "node", "nodes"), list(pods), n.program)
		if n.agent {
			r.faults = append(r.faults, text)
		} else {
			r.warnings = append(r.warnings, text)
		}
	}
	return r
}
