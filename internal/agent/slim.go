package agent

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What is cached is cut down first: of ten thousand Services every byte counts.

// slimMeta is what tells an object from others and from its other versions.
func slimMeta(m metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: m.Namespace, Name: m.Name, UID: m.UID,
		ResourceVersion: m.ResourceVersion, Generation: m.Generation,
	}
}

// slimService drops everything from a Service but its addresses and what bears
// on their announcement.
func slimService(o any) (any, error) {
	s, ok := o.(*corev1.Service)
	if !ok {
		return o, nil
	}
	annotations := map[string]string{}
	for name, value := range s.Annotations {
		if strings.HasPrefix(name, "purelb.io/") {
			annotations[name] = value
		}
	}
	return &corev1.Service{
		TypeMeta:   s.TypeMeta,
		ObjectMeta: withAnnotations(slimMeta(s.ObjectMeta), annotations),
		Spec:       corev1.ServiceSpec{Type: s.Spec.Type, ExternalTrafficPolicy: s.Spec.ExternalTrafficPolicy},
		Status:     corev1.ServiceStatus{LoadBalancer: s.Status.LoadBalancer},
	}, nil
}

func withAnnotations(m metav1.ObjectMeta, annotations map[string]string) metav1.ObjectMeta {
	m.Annotations = annotations
	return m
}

// slimNode drops everything from a Node but its labels.
func slimNode(o any) (any, error) {
	n, ok := o.(*corev1.Node)
	if !ok {
		return o, nil
	}
	meta := slimMeta(n.ObjectMeta)
	meta.Labels = n.Labels
	return &corev1.Node{TypeMeta: n.TypeMeta, ObjectMeta: meta}, nil
}
