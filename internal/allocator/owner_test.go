package allocator_test

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestManagedFieldsNameTheAllocator(t *testing.T) {
	w := newWorld(t)
	group, svc := w.small("default"), balancer("web")
	w.create(group)
	w.allocator()
	w.create(svc)
	w.has(svc, "192.0.2.1")
	for _, o := range []client.Object{svc, group} {
		w.soon(func() error { return wroteStatus(fetch(w, o), "purelb-allocator") })
	}
}

// wroteStatus returns an error unless manager, and no other, wrote the status of o.
func wroteStatus(o client.Object, manager string) error {
	var managers []string
	for _, f := range o.GetManagedFields() {
		if f.Subresource == "status" && f.Operation == metav1.ManagedFieldsOperationUpdate {
			managers = append(managers, f.Manager)
		}
	}
	if !slices.Equal(managers, []string{manager}) {
		return fmt.Errorf("the status of %s is managed by %q, want %s", o.GetName(), managers, manager)
	}
	return nil
}
