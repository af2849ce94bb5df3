package allocator

import (
	"maps"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/apiserver"
	"purelb.io/purelb/internal/lease"
	"purelb.io/purelb/internal/service"
)

// watched are the kinds of objects that are cached before this process leads. For these kinds a
// cache may lag for a moment without harm. Services are cached only after this process leads, see
// bootstrap.
func watched() []client.Object {
	return []client.Object{
		&corev1.Node{}, &coordinationv1.Lease{}, &v2.ServiceGroup{}, &v2.LBNodeAgent{}, namespaceKind(), &networkingv1.ServiceCIDR{},
	}
}

// namespaceKind is a Namespace. Only its metadata is read.
func namespaceKind() *metav1.PartialObjectMetadata {
	n := &metav1.PartialObjectMetadata{}
	n.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return n
}

func namespaceList() *metav1.PartialObjectMetadataList {
	l := &metav1.PartialObjectMetadataList{}
	l.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	return l
}

// cacheOptions say which objects are cached, and which of their fields. Readers of the cache must
// not change the objects.
func cacheOptions(namespace string) (cache.Options, error) {
	agents, err := labels.Parse(lease.Selector)
	if err != nil {
		return cache.Options{}, err
	}
	shared := true
	return cache.Options{
		ReaderFailOnMissingInformer:  true,
		NewInformer:                  newInformer,
		DefaultTransform:             cache.TransformStripManagedFields(),
		DefaultUnsafeDisableDeepCopy: &shared,
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Service{}: {Field: apiserver.IsLoadBalancer, Transform: slim(slimService)},
			&corev1.Node{}:    {Transform: slim(slimNode)},
			namespaceKind():   {Transform: slim(slimNamespace)},
			&coordinationv1.Lease{}: {
				Namespaces: map[string]cache.Config{namespace: {LabelSelector: agents}},
				Transform:  slim(slimLease),
			},
		},
	}, nil
}

// slim makes a transformation of cached objects of one kind.
func slim[T any](to func(T) T) func(any) (any, error) {
	return func(o any) (any, error) {
		if t, ok := o.(T); ok {
			return to(t), nil
		}
		return o, nil
	}
}

// slimService keeps what package service reads.
func slimService(svc *corev1.Service) *corev1.Service {
	kept := &corev1.Service{
		ObjectMeta: slimMeta(svc.ObjectMeta),
		Spec: corev1.ServiceSpec{
			Type:                  svc.Spec.Type,
			ClusterIP:             svc.Spec.ClusterIP,
			IPFamilies:            svc.Spec.IPFamilies,
			IPFamilyPolicy:        svc.Spec.IPFamilyPolicy,
			LoadBalancerIP:        svc.Spec.LoadBalancerIP,
			LoadBalancerClass:     svc.Spec.LoadBalancerClass,
			ExternalTrafficPolicy: svc.Spec.ExternalTrafficPolicy,
		},
		Status: svc.Status,
	}
	if service.Selector(svc) != "" {
		kept.Spec.Selector = svc.Spec.Selector
	}
	for _, p := range svc.Spec.Ports {
		kept.Spec.Ports = append(kept.Spec.Ports, corev1.ServicePort{Protocol: p.Protocol, Port: p.Port})
	}
	kept.Labels = svc.Labels
	kept.Annotations = maps.Clone(svc.Annotations)
	maps.DeleteFunc(kept.Annotations, func(name, _ string) bool { return !service.Reads(name) })
	return kept
}

// slimNode keeps the labels, the addresses, and the networks of the pods.
func slimNode(n *corev1.Node) *corev1.Node {
	kept := &corev1.Node{
		ObjectMeta: slimMeta(n.ObjectMeta),
		Spec:       corev1.NodeSpec{PodCIDR: n.Spec.PodCIDR, PodCIDRs: n.Spec.PodCIDRs},
		Status:     corev1.NodeStatus{Addresses: n.Status.Addresses},
	}
	kept.Labels = n.Labels
	return kept
}

// slimNamespace keeps the labels.
func slimNamespace(n *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	kept := &metav1.PartialObjectMetadata{TypeMeta: n.TypeMeta, ObjectMeta: slimMeta(n.ObjectMeta)}
	kept.Labels = n.Labels
	return kept
}

// slimLease keeps the annotations.
func slimLease(l *coordinationv1.Lease) *coordinationv1.Lease {
	kept := &coordinationv1.Lease{ObjectMeta: slimMeta(l.ObjectMeta)}
	kept.Annotations = l.Annotations
	return kept
}

// slimMeta keeps what identifies an object and its version.
func slimMeta(m metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: m.Namespace, Name: m.Name, UID: m.UID,
		ResourceVersion: m.ResourceVersion, Generation: m.Generation,
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp,
	}
}
