package allocate_test

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestManagedFieldsNameTheAllocator(t *testing.T) {
	w, _ := smallWorld(t)
	for _, o := range []client.Object{w.allocate(balancer("web"), "192.0.2.1"), w.small("default")} {
		w.until(func() bool {
			fields := slices.DeleteFunc(fetch(w, o).GetManagedFields(), func(f metav1.ManagedFieldsEntry) bool { return f.Subresource != "status" })
			return len(fields) == 1 && fields[0].Manager == "purelb-allocator"
		})
	}
}
