package allocator_test

import (
	"fmt"
	"slices"
	"strings"
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
	w.create(w.small("default"), group)
	w.allocator()
	name := apitest.Namespace(t)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	before := balancer("before", in(name))
	w.create(before)
	w.has(before, "192.0.2.1")

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
	after := balancer("after", in(name))
	w.create(after)
	w.has(after, "203.0.113.1")
	w.has(before, "192.0.2.1")

	w.patch(ns, `{"metadata":{"labels":{"team":null}}}`)
	bound("not-there-yet")
	last := balancer("last", in(name))
	w.create(last)
	w.has(last, "192.0.2.2")
	w.has(after, "203.0.113.1")
}

func TestServiceIsServedOnceItsNamespaceMatches(t *testing.T) {
	w := newWorld(t)
	group := w.local("team", "203.0.113.0/24", "203.0.113.0/24")
	group.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": w.namespace}}
	group.Spec.EnforceNamespaces = true
	w.create(group)
	w.allocator()
	name := apitest.Namespace(t)
	svc := balancer("svc", in(name), inGroup("team"))
	w.create(svc)
	w.says(svc, "False", "NamespaceDenied", "namespace denied")
	w.patch(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, `{"metadata":{"labels":{"team":%q}}}`, w.namespace)
	w.has(svc, "203.0.113.1")
}

func TestUnselectedNamespacesCauseNoWork(t *testing.T) {
	w := newWorld(t)
	w.create(w.small("default"))
	r := w.allocator()
	one := balancer("one")
	w.create(one)
	w.has(one, "192.0.2.1")
	name := apitest.Namespace(t)
	w.patch(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, `{"metadata":{"labels":{"a":"b"}}}`)
	// This change of the clusterState follows that of the namespaces.
	w.create(w.remote("far", "198.51.100.0/24", "198.51.100.0/24"))
	far := balancer("far", in(name), inGroup("far"))
	w.create(far)
	w.has(far, "198.51.100.1")
	if n := strings.Count(r.log.String(), "configChanged"); n != 2 {
		t.Errorf("the configuration has changed %d times, want 2:\n%s", n, r.log)
	}
}
