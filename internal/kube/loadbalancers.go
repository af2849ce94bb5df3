package kube

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	toolscache "k8s.io/client-go/tools/cache"
)

// IsLoadBalancer selects the Services of type LoadBalancer. If a Service gets another type, the API
// server reports to a watch that it was deleted.
var IsLoadBalancer = fields.OneTermEqualSelector("spec.type", string(corev1.ServiceTypeLoadBalancer))

// LoadBalancers lists and watches the Services of type LoadBalancer.
func LoadBalancers(core toolscache.Getter) *toolscache.ListWatch {
	return toolscache.NewListWatchFromClient(core, "services", metav1.NamespaceAll, IsLoadBalancer)
}
