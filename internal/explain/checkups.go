package explain

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/nodes/lease"
)

// labelPodSecurity is the label that says which pods a namespace admits.
const labelPodSecurity = "pod-security.kubernetes.io/enforce"

func checkPodSecurity(v *view, f Facts) result {
	if why := f.all.unknown(KindNamespaces); why != "" {
		return result{unknown: "which pods namespace " + v.Namespace + " admits is " + why}
	}
	for _, ns := range v.Namespaces {
		level := ns.Labels[labelPodSecurity]
		if ns.Name == v.Namespace && level != "" && level != "privileged" {
			return result{faults: []string{fmt.Sprintf("namespace %s refuses the agents' pods, which use the network of the node: label it %s=privileged, and not %s", v.Namespace, labelPodSecurity, level)}}
		}
	}
	return result{}
}

func checkDefinitions(v *view, f Facts) result {
	const mend = ": upgrade the chart, or apply the crds.yaml of the release"
	if !slices.Contains(f.APIGroups, v2.GroupVersion.Group) {
		return result{faults: []string{"the API server has no definitions of " + v2.GroupVersion.Group + mend}}
	}
	var r result
	for _, u := range v.Unread {
		said := "the API server does not serve " + u.Kind + " of "
		switch {
		case u.Reason != NotServed:
		case u.Kind == KindGroups || u.Kind == KindAgents:
			r.faults = append(r.faults, said+v2.GroupVersion.String()+mend)
		case u.Kind == KindConfigurations || u.Kind == KindNodeStatuses: // A cluster need not speak BGP.
			r.warnings = append(r.warnings, said+bgpv1.GroupVersion.String()+mend)
		}
	}
	return r
}

// makers are the kinds of the objects that make the pods. Their events say why there is none.
var makers = map[string]string{"allocator": "replicaset", agentContainer: "daemonset"}

func checkPrograms(v *view, _ Facts) result {
	if v.Uninstalled != "" {
		return result{faults: []string{v.Uninstalled}}
	}
	var r result
	for _, name := range []string{"allocator", agentContainer, "k8gobgp"} {
		all := component(v.Pods, name)
		if all.Pods == 0 && name != "k8gobgp" { // A cluster need not speak BGP.
			r.faults = append(r.faults, fmt.Sprintf("there is no pod of the %s: the events of kubectl -n %s describe %s -l component=%s say why", name, v.Namespace, makers[name], name))
		}
		for _, p := range v.Pods {
			if ContainerOf(&p.Spec, name) == nil {
				continue
			}
			if why := notReady(p, name); why != "" {
				r.faults = append(r.faults, fmt.Sprintf("%s in pod %s on node %s is not ready: %s", name, p.Name, orDash(p.Spec.NodeName), why))
			}
		}
	}
	return r
}

func checkVersions(v *view, _ Facts) result {
	one := Versions(v.World, "")
	if one.Consistent != nil && !*one.Consistent {
		return result{warnings: []string{fmt.Sprintf("the programs are of different versions: %s, %s, %s", one.Allocator.Image, one.LBNodeAgent.Image, orDash(one.K8gobgp.Image))}}
	}
	return result{}
}

func checkConfiguration(v *view, _ Facts) result {
	var r result
	if len(v.state.Config.Groups.Usable) == 0 {
		r.warnings = append(r.warnings, "there is no usable ServiceGroup, so no Service gets an address")
	}
	for _, c := range v.checkObjects() {
		switch {
		case c.Code == config.ReasonClusterNetwork: // checkNetworks reports this
		case c.Status == Fail:
			r.faults = append(r.faults, c.Message)
		case c.Status == Warn:
			r.warnings = append(r.warnings, c.Message)
		}
	}
	for _, g := range v.Groups {
		if why := terminating(g); why != "" {
			r.warnings = append(r.warnings, fmt.Sprintf("ServiceGroup %s/%s is being deleted: %s", g.Namespace, g.Name, why))
		}
	}
	for _, g := range v.state.Config.Groups.Usable {
		if fault := v.backendFault(g); fault != "" {
			r.faults = append(r.faults, fault)
		}
	}
	return r
}

func checkNetworks(v *view, _ Facts) result {
	if why := v.unknown(KindNetworks); why != "" && len(v.ClusterIPs) == 0 {
		return result{unknown: "whether a range is in the Service network is " + why}
	}
	var r result
	for _, c := range v.checkObjects() {
		if c.Code == config.ReasonClusterNetwork {
			r.faults = append(r.faults, c.Message)
		}
	}
	return r
}

func checkNodes(v *view, _ Facts) result {
	r := result{faults: v.election("").Problems}
	if why := v.unknown(KindNodes, KindAgents); why != "" {
		r.unknown = "whether all nodes can announce is " + why
	}
	return r
}

// skew is how far a clock may be ahead before it is a problem.
const skew = 5 * time.Second

// checkClocks finds clocks that are ahead. A clock that is behind makes a Lease look old,
// which checkNodes reports.
func checkClocks(v *view, _ Facts) result {
	var r result
	for _, n := range v.nodes {
		if ahead := n.renewed.Sub(v.Now); !v.Now.IsZero() && ahead > skew {
			r.warnings = append(r.warnings, fmt.Sprintf("the clock of node %s is %s ahead of that of the API server; synchronize them", n.Node, short(ahead)))
		}
	}
	return r
}

// slowly is how long the Lease of a node is valid if the node hears others by gossip. A node that
// hears no other node renews its Lease fast.
const slowly = 3 * time.Minute

func checkGossip(v *view, _ Facts) result {
	var r result
	for _, n := range v.nodes {
		if why := v.gossipProblem(n); why != "" {
			r.warnings = append(r.warnings, why)
		}
	}
	return r
}

// begins reports whether the agent of a node has run for less than a minute: it may still be meeting the others.
func (v *view) begins(node string) bool {
	return slices.ContainsFunc(v.Pods, func(p corev1.Pod) bool {
		return p.Spec.NodeName == node && slices.ContainsFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
			return c.Name == agentContainer && c.State.Running != nil && v.Now.Sub(c.State.Running.StartedAt.Time) < time.Minute
		})
	})
}

// gossipProblem describes that n does not hear all other nodes by gossip, or returns "".
func (v *view) gossipProblem(n node) string {
	if !n.Alive || !n.gossip.IsValid() || n.lasts == 0 || n.lasts >= slowly || len(v.liveNodes()) < 2 || v.begins(n.Node) {
		return ""
	}
	return fmt.Sprintf("node %s does not hear all other nodes by gossip, and renews its Lease fast instead: let port %d, TCP and UDP, pass between nodes, and see that all agents have the key of the Secret purelb-gossip",
		n.Node, n.gossip.Port())
}

// ToProbe is an address whose answers show how a segment treats the addresses of Services, and the nodes to
// ask for it.
type ToProbe struct {
	Address netip.Addr
	Nodes   []string
}

// The number of segments that a check asks, and of nodes on each of them: the holder and others.
const segmentsAsked, nodesAsked = 16, 3

// Probes returns one address for each network in which a live node announces one, if another node lives
// there. A network that drops the answers for one address usually drops those for all.
func Probes(w World) []ToProbe {
	v := newView(w)
	var all []ToProbe
	for _, subnet := range v.state.Subnets {
		if p, ok := v.probeIn(subnet); ok && len(all) < segmentsAsked {
			all = append(all, p)
		}
	}
	return all
}

func (v *view) probeIn(subnet netip.Prefix) (ToProbe, bool) {
	var there []string
	for _, n := range v.nodes {
		if n.Alive && slices.Contains(n.Subnets, subnet) {
			there = append(there, n.Node)
		}
	}
	for _, o := range v.addresses() {
		if o.Where != announce.Local || !subnet.Contains(o.IP) || !slices.Contains(there, o.Holder) {
			continue
		}
		others := slices.DeleteFunc(slices.Clone(there), func(node string) bool { return node == o.Holder })
		others = others[:min(len(others), nodesAsked-1)]
		return ToProbe{o.IP, append([]string{o.Holder}, others...)}, len(others) > 0
	}
	return ToProbe{}, false
}

// checkWire finds addresses for which a wrong machine answers, and those for which the network drops the
// answers.
func checkWire(v *view, f Facts) result {
	r := result{faults: f.Misheard}
	if why := f.Unsaid["wire"]; why != "" {
		r.unknown = "whether nodes hear the answers for addresses is unknown: " + why
	}
	nodes := map[lease.MAC]string{}
	for i := range v.Leases {
		macs, _ := lease.MACs(&v.Leases[i])
		for _, mac := range macs {
			nodes[mac] = lease.Node(&v.Leases[i])
		}
	}
	for i := range v.Leases {
		for _, c := range lease.Claims(&v.Leases[i]) {
			text := fmt.Sprintf("%s is answered by another machine, %s, as node %s reports", c.Addr, c.MAC, lease.Node(&v.Leases[i]))
			if node := cmp.Or(nodes[c.MAC], c.Node); node != "" {
				text = fmt.Sprintf("%s is answered by node %s, which does not announce it, as node %s reports: set arp_ignore=1 and arp_announce=2 there, and strictARP with IPVS", c.Addr, node, lease.Node(&v.Leases[i]))
			}
			if !slices.Contains(r.faults, text) {
				r.faults = append(r.faults, text)
			}
		}
	}
	return r
}

func checkRouters(v *view, _ Facts) result {
	for _, u := range v.unread(KindNodeStatuses, KindConfigurations) {
		if u.hidden() {
			return result{unknown: "whether all BGP sessions are established is unknown " + u.because()}
		}
	}
	switch {
	case len(v.NodeStatuses) == 0 && len(v.peeringCluster().Configs) == 0:
		return result{} // The cluster does not speak BGP.
	case len(v.NodeStatuses) == 0:
		return result{warnings: []string{"there is a BGPConfiguration, and no node reports a BGP session: the value gobgp.enabled of the chart must be true, and the containers k8gobgp must run"}}
	}
	s, err := SessionsOf(v.World, "")
	if err != nil {
		return result{unknown: err.Error()}
	}
	return result{faults: s.Problems, lasting: v.forgetful()}
}

// forgetful says which routers drop the routes of a node while its speaker restarts, although they should keep
// them.
func (v *view) forgetful() []string {
	var all []string
	for _, one := range v.speakers("") {
		for _, n := range one.Neighbors {
			if v.silence(one) != "" || n.GracefulRestart == nil || *n.GracefulRestart {
				continue
			}
			var families []string
			for _, f := range []addr.Family{addr.V4, addr.V6} {
				if receives(n, f) {
					families = append(families, f.String())
				}
			}
			if len(families) > 0 {
				all = append(all, fmt.Sprintf("node %s: %s keeps no %s routes while the speaker restarts: it has not agreed to graceful restart; allow it on the router, at least as a helper",
					one.NodeName, n.Address, strings.Join(families, " and ")))
			}
		}
	}
	return all
}

func checkAllServices(v *view, _ Facts) result {
	var r result
	unknown := 0
	for _, l := range v.services(Filter{}).Services {
		switch l.Status {
		case statusOK:
		case statusUnknown:
			unknown++
		default:
			r.faults = append(r.faults, fmt.Sprintf("Service %s/%s: %s: %s", l.Namespace, l.Service, l.Status, l.Message))
		}
	}
	if unknown > 0 {
		r.unknown = fmt.Sprintf("the state of %s is unknown", counted(unknown, "Service", "Services"))
	}
	return r
}
