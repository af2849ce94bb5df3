package allocate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
)

func TestCachedObjectsAreSlim(t *testing.T) {
	kept := map[string]string{"a": "b"}
	whole := metav1.ObjectMeta{
		Namespace: "default", Name: "web", UID: "uid", ResourceVersion: "7", Labels: kept,
		Annotations:   map[string]string{"a": "b", corev1.LastAppliedConfigAnnotation: "{}"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
	}
	reduced := metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "uid", ResourceVersion: "7", Labels: kept, Annotations: kept}
	addresses := []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}
	for _, tt := range []struct{ whole, want any }{
		{
			&corev1.Node{ObjectMeta: *whole.DeepCopy(), Status: corev1.NodeStatus{Addresses: addresses, Images: []corev1.ContainerImage{{SizeBytes: 1}}}},
			&corev1.Node{ObjectMeta: reduced, Status: corev1.NodeStatus{Addresses: addresses}},
		},
		{&metav1.PartialObjectMetadata{ObjectMeta: *whole.DeepCopy()}, &metav1.PartialObjectMetadata{ObjectMeta: reduced}},
		{toolscache.DeletedFinalStateUnknown{Key: "default/web"}, toolscache.DeletedFinalStateUnknown{Key: "default/web"}},
	} {
		got, err := slim(tt.whole)
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
}
