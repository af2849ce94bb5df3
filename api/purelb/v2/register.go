package v2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of these types.
var GroupVersion = schema.GroupVersion{Group: "purelb.io", Version: "v2"}

// AddToScheme makes these types known to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&ServiceGroup{}, &ServiceGroupList{},
		&LBNodeAgent{}, &LBNodeAgentList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
