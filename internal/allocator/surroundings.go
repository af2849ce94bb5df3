package allocator

import (
	"net/netip"
	"reflect"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/lease"
	"purelb.io/purelb/internal/selection"
)

// surroundings are what decisions depend on, beside Services.
type surroundings struct {
	config config.Config
	// subnets are the networks of all nodes, sorted. They are taken from all
	// Leases that exist: a node that is down has not left its network.
	subnets []netip.Prefix
	// blocked are addresses that Services must not get, with the reason.
	blocked map[netip.Addr]string
	// namespaces are the labels of the namespaces that there are, where a
	// ServiceGroup selects namespaces by them; otherwise it is nil, so that
	// namespaces come and go without anybody being looked at again.
	namespaces map[string]map[string]string
	// boundaries say which groups are for which namespaces.
	boundaries selection.Boundaries
	// outOfScope are the ServiceGroups in other namespaces.
	outOfScope []v2.ServiceGroup
}

// equal reports whether decisions are the same in s and t.
func (s surroundings) equal(t surroundings) bool {
	return reflect.DeepEqual(s.config.Groups, t.config.Groups) && reflect.DeepEqual(s.config.Problems, t.config.Problems) &&
		reflect.DeepEqual(s.config.Fences, t.config.Fences) && slices.Equal(s.subnets, t.subnets) &&
		reflect.DeepEqual(s.blocked, t.blocked) && reflect.DeepEqual(s.namespaces, t.namespaces)
}

// labelsOf returns the labels of namespaces, if c selects any by them.
func labelsOf(namespaces []metav1.PartialObjectMetadata, c config.Config) map[string]map[string]string {
	selects := func(b config.Boundary) bool { return b.NamespaceSelector != nil }
	if !slices.ContainsFunc(c.Fences, selects) && !slices.ContainsFunc(c.Groups, func(g config.Group) bool { return selects(g.Boundary) }) {
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

// nodeAddresses returns the addresses that nodes have themselves: those that
// their objects name, and those that their agents found on them.
func nodeAddresses(nodes []corev1.Node, leases []coordinationv1.Lease) map[netip.Addr]string {
	blocked := map[netip.Addr]string{}
	for _, l := range leases {
		for _, a := range lease.Addresses(&l) {
			blocked[a] = "address of node " + lease.Node(&l)
		}
	}
	for _, n := range nodes {
		for _, na := range n.Status.Addresses {
			if a, err := netip.ParseAddr(na.Address); err == nil {
				blocked[a.Unmap().WithZone("")] = "address of node " + n.Name
			}
		}
	}
	return blocked
}
