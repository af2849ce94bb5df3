package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of these types.
var GroupVersion = schema.GroupVersion{Group: "bgp.purelb.io", Version: "v1"}

// AddToScheme makes these types known to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&BGPConfiguration{}, &BGPConfigurationList{},
		&BGPNodeStatus{}, &BGPNodeStatusList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
