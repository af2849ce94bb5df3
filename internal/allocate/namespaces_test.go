package allocate_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/testing/apitest"
)

func in(namespace string) func(*corev1.Service) {
	return func(svc *corev1.Service) { svc.Namespace = namespace }
}

func TestNamespaceLabelsSelectTheGroup(t *testing.T) {
	w := newWorld(t)
	group := w.local("team", "203.0.113.0/24", "203.0.113.0/24")
	group.Spec.Namespaces = []v2.Namespace{"not-there-yet"}
	group.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": w.namespace}}
	group.Spec.EnforceNamespaces = true
	w.create(w.small("default"), group)
	w.allocator()
	name := apitest.Namespace(t)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	before, asking := w.allocate(balancer("before", in(name)), "192.0.2.1"), balancer("asking", in(name), inGroup("team"))
	w.create(asking)
	w.says(asking, "False", "NamespaceDenied", "namespace denied")

	w.patch(ns, `{"metadata":{"labels":{"team":%q}}}`, w.namespace)
	bound := func(want ...string) {
		t.Helper()
		w.soon(func() error {
			if got := fetch(w, group).Status.BoundNamespaces; !slices.Equal(got, want) {
				return fmt.Errorf("the group is bound to %q, want %q", got, want)
			}
			return nil
		})
	}
	bound("not-there-yet", name)
	w.has(asking, "203.0.113.1")
	after := w.allocate(balancer("after", in(name)), "203.0.113.2")
	w.has(before, "192.0.2.1")

	w.patch(ns, `{"metadata":{"labels":{"team":null}}}`)
	bound("not-there-yet")
	w.allocate(balancer("last", in(name)), "192.0.2.2")
	w.has(after, "203.0.113.2")
}
