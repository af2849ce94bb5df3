package announce

import (
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
)

// EndpointNodes returns the nodes on which the wanted Services have a ready endpoint, and
// those on which they have none but one that ends and serves still. The node of an
// endpoint outside of the cluster is "".
func EndpointNodes(all []discoveryv1.EndpointSlice, wanted map[types.NamespacedName]bool) (ready, ends map[types.NamespacedName][]string) {
	ready, ends = nodesWhere(all, wanted, isReady), nodesWhere(all, wanted, serves)
	for service := range ends {
		ends[service] = slices.DeleteFunc(ends[service], func(node string) bool {
			return slices.Contains(ready[service], node)
		})
	}
	return ready, ends
}

// nodesWhere returns the nodes that have an endpoint that is fit. An endpoint is
// known by its address, and is fit only if all slices that have it say so: while
// it moves from one to another they may differ.
func nodesWhere(all []discoveryv1.EndpointSlice, wanted map[types.NamespacedName]bool,
	fit func(discoveryv1.EndpointConditions) bool,
) map[types.NamespacedName][]string {
	type endpoint struct {
		service types.NamespacedName
		address string
	}
	on, unfit := map[endpoint][]string{}, map[endpoint]bool{}
	for i := range all {
		service := types.NamespacedName{Namespace: all[i].Namespace, Name: all[i].Labels[discoveryv1.LabelServiceName]}
		if !wanted[service] {
			continue
		}
		for _, e := range all[i].Endpoints {
			for _, a := range e.Addresses {
				one := endpoint{service, a}
				unfit[one] = unfit[one] || !fit(e.Conditions)
				node := "" // an endpoint outside of the cluster is on none
				if e.NodeName != nil {
					node = *e.NodeName
				}
				on[one] = append(on[one], node)
			}
		}
	}
	nodes := map[types.NamespacedName][]string{}
	for one, names := range on {
		if !unfit[one] {
			nodes[one.service] = append(nodes[one.service], names...)
		}
	}
	for service := range nodes {
		slices.Sort(nodes[service])
		nodes[service] = slices.Compact(nodes[service])
	}
	return nodes
}

// isReady says whether an endpoint takes new connections. Not said means ready.
func isReady(c discoveryv1.EndpointConditions) bool { return c.Ready == nil || *c.Ready }

// serves says whether an endpoint is ready, or ends and serves still.
func serves(c discoveryv1.EndpointConditions) bool {
	return isReady(c) || c.Serving != nil && *c.Serving
}
