package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/service"
)

// recorded sets the record of svc.
func recorded(svc *corev1.Service, record string) *corev1.Service {
	svc.Status.Conditions = []metav1.Condition{{Type: service.ConditionRecord, Status: metav1.ConditionTrue, Message: record}}
	return svc
}

func TestOnlyServicesThatChangeRoutesAreFollowed(t *testing.T) {
	svc := func(policy corev1.ServiceExternalTrafficPolicy, annotations map[string]string) *corev1.Service {
		return &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", Annotations: annotations},
			Spec:       corev1.ServiceSpec{ExternalTrafficPolicy: policy},
			Status:     corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "203.0.113.1"}}}},
		}
	}
	attributes := map[string]string{peering.AnnotationCommunities: "65000:1"}
	for _, tt := range []struct {
		name          string
		svc           *corev1.Service
		always, local bool
	}{
		{"Cluster", svc(corev1.ServiceExternalTrafficPolicyCluster, nil), false, false},
		{"Local", svc(corev1.ServiceExternalTrafficPolicyLocal, nil), false, true},
		{"Cluster with attributes", svc(corev1.ServiceExternalTrafficPolicyCluster, attributes), true, false},
		{"Local with attributes", svc(corev1.ServiceExternalTrafficPolicyLocal, attributes), true, true},
		{"Cluster from a group that names neighbors", recorded(svc(corev1.ServiceExternalTrafficPolicyCluster, nil), `{"addresses":["203.0.113.1"],"from":"web","restricted":"web"}`), true, false},
		{"Cluster from another group", recorded(svc(corev1.ServiceExternalTrafficPolicyCluster, nil), `{"addresses":["203.0.113.1"],"from":"web"}`), false, false},
	} {
		_, always := keepService(tt.svc)
		managed, _ := keepManaged(tt.svc)
		if local := managed.Local; always != tt.always || local != tt.local {
			t.Errorf("%s: followed always: %v, for weights: %v", tt.name, always, local)
		}
	}
}
