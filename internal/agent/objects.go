package agent

import (
	"maps"
	"slices"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/ending"
	"purelb.io/purelb/internal/service"
)

// Service is the part of a Service that the agent keeps: of ten thousand, every byte counts.
// It is shared and read-only.
type Service struct {
	announce.Service
	UID types.UID
	// Version is its resourceVersion.
	Version string
	// announcing4 and announcing6 are the announcing annotations.
	announcing4, announcing6 string
	// given is when the Service got its addresses, in seconds since 1970.
	given int64
	// ours says that PureLB announces the Service. Of other Services the agent keeps only the
	// name.
	ours bool
}

// readService returns the part of svc that the agent uses.
func readService(svc *corev1.Service) *Service {
	s, ours := announce.Read(svc)
	s.Key = svc.Namespace + "/" + svc.Name
	s.PoolType, s.From = unique.Make(s.PoolType).Value(), unique.Make(s.From).Value()
	return &Service{
		Service: s, ours: ours, UID: svc.UID, Version: svc.ResourceVersion, given: given(svc),
		announcing4: svc.Annotations[service.AnnotationAnnouncingIPv4],
		announcing6: svc.Annotations[service.AnnotationAnnouncingIPv6],
	}
}

// given returns when svc got its addresses or, if that is not known, was created.
func given(svc *corev1.Service) int64 {
	at := svc.CreationTimestamp.Time
	if c := meta.FindStatusCondition(svc.Status.Conditions, service.ConditionAllocated); c != nil && c.Status == metav1.ConditionTrue && c.LastTransitionTime.After(at) {
		at = c.LastTransitionTime.Time
	}
	return at.Unix()
}

// slimService is readService for the informer, which may call it twice.
func slimService(o any) (any, error) {
	if svc, ok := o.(*corev1.Service); ok {
		return readService(svc), nil
	}
	return o, nil
}

// GetObjectMeta gives the informer the name of s.
func (s *Service) GetObjectMeta() metav1.Object {
	name := s.name()
	return &metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name, UID: s.UID, ResourceVersion: s.Version}
}

func (s *Service) name() types.NamespacedName {
	namespace, name, _ := strings.Cut(s.Key, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// announcing returns the announcing annotation of family f.
func (s *Service) announcing(f addr.Family) string {
	if f == addr.V6 {
		return s.announcing6
	}
	return s.announcing4
}

// ref returns the reference to s for an event, nil for a nil s.
func (s *Service) ref() *corev1.ObjectReference {
	if s == nil {
		return nil
	}
	name := s.name()
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: name.Namespace, Name: name.Name, UID: s.UID}
}

// The functions below cut objects down before they are cached.

// slimMeta returns what distinguishes an object from others and from its other versions.
func slimMeta(m metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: m.Namespace, Name: m.Name, UID: m.UID,
		ResourceVersion: m.ResourceVersion, Generation: m.Generation,
	}
}

// slimNode drops everything from a Node but its labels and the signals that it should be
// avoided.
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

// newNode reports whether two slim Nodes differ in more than their version.
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
