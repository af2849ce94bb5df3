// Package census says what the objects of a cluster mean for the allocation of addresses:
// which groups and networks there are, which addresses no Service may have, and which
// Services have which addresses.
//
// The allocator keeps the results of census up to date while the cluster changes. The kubectl
// plugin computes them once. So both decide from the same facts. The package reads objects as
// values, and knows nothing of the API server.
//
// Read the files in this order:
//
//	census.go    Objects are the input, State is their meaning
//	reserved.go  the addresses and networks that Services must not get
//	adopt.go     the addresses that a Service has before the first decision
//	plan.go      the addresses that every Service gets
package census

import (
	"maps"
	"net/netip"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/groups"
	"purelb.io/purelb/internal/nodes/lease"
	"purelb.io/purelb/internal/service"
)

// Install says how PureLB is installed in a cluster.
type Install struct {
	// Namespace is the namespace of PureLB. ConfigNamespaces are further namespaces whose
	// ServiceGroups and LBNodeAgents PureLB uses.
	Namespace        string
	ConfigNamespaces []string
	// IgnorePodCIDRs says that Services may have addresses of Nodes' podCIDRs.
	IgnorePodCIDRs bool
}

// Objects are the objects on which allocation depends, except for the Services of type LoadBalancer.
type Objects struct {
	Install
	Groups     []v2.ServiceGroup
	Agents     []v2.LBNodeAgent
	Leases     []coordinationv1.Lease
	Nodes      []corev1.Node
	Networks   []networkingv1.ServiceCIDR
	Namespaces []metav1.PartialObjectMetadata
	// ClusterIPs are those of the Service default/kubernetes. They are set if the API server
	// serves no ServiceCIDRs.
	ClusterIPs []netip.Addr
	// Others are Services of other types with addresses in spec.externalIPs.
	Others []corev1.Service
}

// State is the meaning of Objects.
type State struct {
	Config config.Config
	// Subnets are the networks of all nodes, sorted. They are read from all existing Leases,
	// because a node that is down still has its network.
	Subnets []netip.Prefix
	// Blocked has the addresses that Services must not get. Each value says what the address is.
	Blocked map[netip.Addr]string
	// Quarantined are the blocked addresses that machines outside the cluster have.
	Quarantined map[netip.Addr]string
	// Networks are the networks that the cluster uses itself, sorted. Services must not get
	// their addresses.
	Networks []groups.Network
	// Namespaces holds the labels of all namespaces, if a ServiceGroup selects namespaces by
	// labels. Otherwise it is nil.
	Namespaces map[string]map[string]string
	// Boundaries say which groups are for which namespaces.
	Boundaries ipam.Boundaries
	// Listed are the addresses that Services of other types have in spec.externalIPs.
	Listed map[ipam.Owner][]netip.Addr
}

// Of reads objects. The answer does not depend on their order.
func Of(o Objects) State {
	nodes := o.Nodes
	if o.IgnorePodCIDRs {
		nodes = nil
	}
	subnets, own := subnetsOf(o.Leases), nodeAddresses(o.Nodes, o.Leases)
	networks := networksOf(o.Networks, nodes)
	c := config.For(o.Groups, o.Agents, o.Namespace, o.ConfigNamespaces...).
		OnNodes(subnets, slices.Collect(maps.Keys(own))).
		Beside(networks, o.ClusterIPs)
	namespaces := labelsOf(o.Namespaces, c)
	foreign := quarantined(o.Leases)
	return State{
		Config:      c,
		Subnets:     subnets,
		Blocked:     reserved(own, gateways(o.Leases), foreign),
		Quarantined: foreign,
		Networks:    networks,
		Namespaces:  namespaces,
		Boundaries:  ipam.BoundariesOf(c.Groups, namespaces),
		Listed:      listed(o.Others),
	}
}

func listed(services []corev1.Service) map[ipam.Owner][]netip.Addr {
	all := make(map[ipam.Owner][]netip.Addr, len(services))
	for i := range services {
		all[ipam.Owner(services[i].Namespace+"/"+services[i].Name)] = service.External(&services[i])
	}
	return all
}

// labelsOf returns the labels of namespaces, if c selects namespaces by labels.
func labelsOf(namespaces []metav1.PartialObjectMetadata, c config.Config) map[string]map[string]string {
	selects := func(b groups.Boundary) bool { return b.NamespaceSelector != nil }
	if !slices.ContainsFunc(c.Groups.Enforced, selects) && !slices.ContainsFunc(c.Groups.Usable, func(g groups.Group) bool { return selects(g.Boundary) }) {
		return nil
	}
	of := make(map[string]map[string]string, len(namespaces))
	for _, ns := range namespaces {
		of[ns.Name] = ns.Labels
	}
	return of
}

// subnetsOf returns the networks that leases name, sorted.
func subnetsOf(leases []coordinationv1.Lease) []netip.Prefix {
	var subnets []netip.Prefix
	for _, l := range leases {
		subnets = append(subnets, lease.Subnets(&l)...)
	}
	slices.SortFunc(subnets, netip.Prefix.Compare)
	return slices.Compact(subnets)
}
