package allocator

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"purelb.io/purelb/internal/service"
)

func TestSlimServiceReadsLikeTheWholeOne(t *testing.T) {
	class, policy := service.ClassV2, corev1.IPFamilyPolicyPreferDualStack
	at := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	whole := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "web", UID: "uid", ResourceVersion: "7", Generation: 2, CreationTimestamp: at, DeletionTimestamp: &at,
			Annotations: map[string]string{
				"kubectl.kubernetes.io/last-applied-configuration": "{}", service.AnnotationGroup: "blue", service.AnnotationSharing: "k",
				service.AnnotationAllocatedBy: service.Brand, service.AnnotationAllocatedFrom: "blue", service.AnnotationAddresses: "192.0.2.1",
				service.AnnotationPoolType: "remote", service.AnnotationSkipIPv6DAD: "true", service.AnnotationAnnouncingIPv4: "n1,eth0,192.0.2.1",
				service.AnnotationHostname: "web.example.com",
			},
			Labels: map[string]string{"a": "b"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
		},
		Spec: corev1.ServiceSpec{
			Type: "LoadBalancer", ClusterIP: "10.96.0.1", IPFamilies: []corev1.IPFamily{"IPv4", "IPv6"}, IPFamilyPolicy: &policy,
			LoadBalancerClass: &class, LoadBalancerIP: "192.0.2.1", ExternalTrafficPolicy: "Local",
			Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{
				{Name: "web", Protocol: "TCP", Port: 80, NodePort: 30080}, {Name: "dns", Protocol: "UDP", Port: 53, NodePort: 30053},
			},
		},
		Status: corev1.ServiceStatus{
			LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}},
			Conditions:   []metav1.Condition{{Type: "example.com/Fine", Status: "True"}},
		},
	}
	slim := slimService(whole.DeepCopy())
	if diff := cmp.Diff(service.Read(whole, false), service.Read(slim, false), cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("the requests differ (-whole +slim):\n%s", diff)
	}
	result := service.Result{Addresses: service.Ingress(whole), From: "green", Allocated: true, Reason: "Allocated"}
	for name, patch := range map[string]func(*corev1.Service) ([]byte, error){
		"result":  func(svc *corev1.Service) ([]byte, error) { return result.Patch(svc, at.Time) },
		"release": service.ReleasePatch,
		"policy":  service.ClusterPolicyPatch,
	} {
		want, _ := patch(whole)
		got, _ := patch(slim)
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("the patch of %s differs (-whole +slim):\n%s", name, diff)
		}
	}
	alone := whole.DeepCopy()
	delete(alone.Annotations, service.AnnotationSharing) // the selector matters only to Services that share
	if len(slim.ManagedFields)+len(slimService(alone).Spec.Selector) > 0 || slim.Spec.Ports[0].NodePort > 0 || slim.Annotations["kubectl.kubernetes.io/last-applied-configuration"] != "" {
		t.Errorf("the Service is not slim: %v", slim)
	}
}

func TestSlimNamespaceKeepsLabels(t *testing.T) {
	whole := namespaceKind()
	whole.Name, whole.ResourceVersion = "fixture", "7"
	whole.Labels = map[string]string{"team": "fixture"}
	whole.Annotations = map[string]string{"a": "b"}
	whole.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	want := namespaceKind()
	want.Name, want.ResourceVersion, want.Labels = "fixture", "7", whole.Labels
	if diff := cmp.Diff(want, slimNamespace(whole)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
