package allocator

import (
	"net/http"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	v2 "purelb.io/purelb/api/purelb/v2"
)

// mapper knows the resources that we use, so that the API server is not asked:
// an allocator that starts while it is away waits, instead of ending again and
// again, ever more slowly.
func mapper(*rest.Config, *http.Client) (meta.RESTMapper, error) {
	m := meta.NewDefaultRESTMapper(nil)
	add := func(gv schema.GroupVersion, kind, plural, singular string, scope meta.RESTScope) {
		m.AddSpecific(gv.WithKind(kind), gv.WithResource(plural), gv.WithResource(singular), scope)
		// A cache of one namespace asks for the scope of the list's kind.
		m.AddSpecific(gv.WithKind(kind+"List"), gv.WithResource(plural), gv.WithResource(singular), scope)
	}
	add(corev1.SchemeGroupVersion, "Service", "services", "service", meta.RESTScopeNamespace)
	add(corev1.SchemeGroupVersion, "Node", "nodes", "node", meta.RESTScopeRoot)
	add(coordinationv1.SchemeGroupVersion, "Lease", "leases", "lease", meta.RESTScopeNamespace)
	add(v2.GroupVersion, "ServiceGroup", "servicegroups", "servicegroup", meta.RESTScopeNamespace)
	add(v2.GroupVersion, "LBNodeAgent", "lbnodeagents", "lbnodeagent", meta.RESTScopeNamespace)
	return m, nil
}
