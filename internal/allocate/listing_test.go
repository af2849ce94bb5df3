package allocate

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/watchlist"
)

func TestListReadsTheNewestServices(t *testing.T) {
	var asked metav1.ListOptions
	from := current(&cache.ListWatch{ListWithContextFunc: func(_ context.Context, o metav1.ListOptions) (runtime.Object, error) {
		asked = o
		svc := corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "svc", ManagedFields: []metav1.ManagedFieldsEntry{{}}}}
		return &corev1.ServiceList{Items: []corev1.Service{svc}}, nil
	}})
	if !watchlist.DoesClientNotSupportWatchListSemantics(from) {
		t.Error("an informer would stream the Services")
	}
	for _, version := range []string{"0", "", "17"} {
		o := metav1.ListOptions{ResourceVersion: version, Limit: 500, Continue: "there"}
		found, err := from.ListWithContext(t.Context(), o)
		must(t, err)
		if o.ResourceVersion = ""; asked != o {
			t.Errorf("for version %q the request is %v, want %v", version, asked, o)
		}
		if svc := found.(*corev1.ServiceList).Items[0]; svc.Name != "svc" || svc.ManagedFields != nil {
			t.Errorf("the cache keeps %v", svc)
		}
	}
}
