package allocate

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/kube"
	"purelb.io/purelb/internal/nodes/lease"
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

// cacheOptions say which objects are cached, and without which of their fields. Readers of the cache
// must not change the objects.
func cacheOptions(namespace string) (cache.Options, error) {
	agents, err := labels.Parse(lease.Selector)
	if err != nil {
		return cache.Options{}, err
	}
	shared := true
	return cache.Options{
		ReaderFailOnMissingInformer:  true,
		NewInformer:                  newInformer,
		DefaultTransform:             slim,
		DefaultUnsafeDisableDeepCopy: &shared,
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Service{}:       {Field: kube.IsLoadBalancer},
			&coordinationv1.Lease{}: {Namespaces: map[string]cache.Config{namespace: {LabelSelector: agents}}},
		},
	}, nil
}

// slim removes large parts of an object that nothing reads.
func slim(o any) (any, error) {
	m, ok := o.(metav1.Object)
	if !ok {
		return o, nil // such as a cache.DeletedFinalStateUnknown
	}
	m.SetManagedFields(nil)
	delete(m.GetAnnotations(), corev1.LastAppliedConfigAnnotation)
	if node, ok := o.(*corev1.Node); ok {
		node.Status.Images = nil
	}
	return o, nil
}
