// Package apiserver connects the programs to the API server, and lets them start
// while it is away. It knows where the API server is, whether it answers, and which
// resources the programs use. It does not know what the objects mean.
package apiserver

import (
	"context"
	"log/slog"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/backoff"
)

// Mapper returns a mapper that knows the resources of the programs. So a program
// can set up its clients without asking the API server.
func Mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	add := func(gv schema.GroupVersion, kind, plural, singular string, scope meta.RESTScope) {
		m.AddSpecific(gv.WithKind(kind), gv.WithResource(plural), gv.WithResource(singular), scope)
		// A cache of one namespace asks for the scope of the list's kind.
		m.AddSpecific(gv.WithKind(kind+"List"), gv.WithResource(plural), gv.WithResource(singular), scope)
	}
	add(corev1.SchemeGroupVersion, "Service", "services", "service", meta.RESTScopeNamespace)
	add(corev1.SchemeGroupVersion, "Node", "nodes", "node", meta.RESTScopeRoot)
	add(discoveryv1.SchemeGroupVersion, "EndpointSlice", "endpointslices", "endpointslice", meta.RESTScopeNamespace)
	add(coordinationv1.SchemeGroupVersion, "Lease", "leases", "lease", meta.RESTScopeNamespace)
	add(v2.GroupVersion, "ServiceGroup", "servicegroups", "servicegroup", meta.RESTScopeNamespace)
	add(v2.GroupVersion, "LBNodeAgent", "lbnodeagents", "lbnodeagent", meta.RESTScopeNamespace)
	return m
}

// Await returns when the API server answers, or when ctx is done. It asks once in
// every. It must run before a watch begins: a watch that begins while the API
// server is away backs off, and may notice its return seconds too late.
func Await(ctx context.Context, api discovery.DiscoveryInterface, every time.Duration, log *slog.Logger) {
	for said := false; ctx.Err() == nil && !answers(ctx, api, every); said = true {
		if !said {
			log.WarnContext(ctx, "waitingForAPIServer")
		}
		backoff.Sleep(ctx, every)
	}
}

// answers reports whether the API server answers, even if it refuses the request.
func answers(ctx context.Context, api discovery.DiscoveryInterface, limit time.Duration) bool {
	err := api.RESTClient().Get().AbsPath("/version").Timeout(limit).Do(ctx).Error()
	return err == nil || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err)
}
