package agent

import (
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
)

// slimSlice drops everything from an EndpointSlice but its Service, and of each
// endpoint its addresses, its node and whether it is ready.
func slimSlice(o any) (any, error) {
	s, ok := o.(*discoveryv1.EndpointSlice)
	if !ok {
		return o, nil
	}
	service := s.Labels[discoveryv1.LabelServiceName]
	s.ObjectMeta = slimMeta(s.ObjectMeta)
	s.Labels = map[string]string{discoveryv1.LabelServiceName: service}
	s.Ports = nil
	for i, e := range s.Endpoints {
		s.Endpoints[i] = discoveryv1.Endpoint{Addresses: e.Addresses, Conditions: e.Conditions, NodeName: e.NodeName}
	}
	return s, nil
}

// serviceOf is the Service that the endpoints of s are for.
func serviceOf(s *discoveryv1.EndpointSlice) types.NamespacedName {
	return types.NamespacedName{Namespace: s.Namespace, Name: s.Labels[discoveryv1.LabelServiceName]}
}

// readyOn returns the Services that have an endpoint on node that can take
// traffic. An endpoint is known by its address, and can take traffic only if all
// slices that have it say so: while it moves from one to another they may differ.
func readyOn(node string, slices []discoveryv1.EndpointSlice) map[types.NamespacedName]bool {
	type endpoint struct {
		service types.NamespacedName
		address string
	}
	here, unfit := map[endpoint]bool{}, map[endpoint]bool{}
	for i := range slices {
		service := serviceOf(&slices[i])
		for _, e := range slices[i].Endpoints {
			for _, a := range e.Addresses {
				one := endpoint{service, a}
				here[one] = here[one] || e.NodeName != nil && *e.NodeName == node
				unfit[one] = unfit[one] || !takesTraffic(e.Conditions)
			}
		}
	}
	ready := map[types.NamespacedName]bool{}
	for one := range here {
		if here[one] && !unfit[one] {
			ready[one.service] = true
		}
	}
	return ready
}

// takesTraffic says whether an endpoint is ready, or goes away and still serves.
// Not said means ready.
func takesTraffic(c discoveryv1.EndpointConditions) bool {
	return c.Ready == nil || *c.Ready || c.Serving != nil && *c.Serving
}
