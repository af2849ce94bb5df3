package agent

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"purelb.io/purelb/internal/ending"
)

// What is cached is cut down first.

// slimMeta is what tells an object from others and from its other versions.
func slimMeta(m metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: m.Namespace, Name: m.Name, UID: m.UID,
		ResourceVersion: m.ResourceVersion, Generation: m.Generation,
	}
}

// slimNode drops everything from a Node but its labels and what says that it
// should be avoided.
func slimNode(o any) (any, error) {
	n, ok := o.(*corev1.Node)
	if !ok {
		return o, nil
	}
	slim := &corev1.Node{TypeMeta: n.TypeMeta, ObjectMeta: slimMeta(n.ObjectMeta)}
	slim.Labels, slim.DeletionTimestamp = n.Labels, n.DeletionTimestamp
	for _, t := range n.Spec.Taints {
		slim.Spec.Taints = append(slim.Spec.Taints, corev1.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect})
	}
	slim.Status.Conditions = ending.Telling(n)
	return slim, nil
}

// newNode says whether two slim Nodes differ in more than their version.
func newNode(before, after client.Object) bool {
	b, ok := before.(*corev1.Node)
	a, too := after.(*corev1.Node)
	return ok && too && (b.UID != a.UID || !maps.Equal(b.Labels, a.Labels) || b.DeletionTimestamp.IsZero() != a.DeletionTimestamp.IsZero() ||
		!slices.Equal(b.Spec.Taints, a.Spec.Taints) || !slices.Equal(b.Status.Conditions, a.Status.Conditions))
}

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
