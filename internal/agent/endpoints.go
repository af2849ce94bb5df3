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
