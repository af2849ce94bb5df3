package allocate

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/kube"
)

// waitingCache is a cache that starts to watch after the API server has answered for the
// first time.
type waitingCache struct {
	cache.Cache
	api discovery.DiscoveryInterface
	log *slog.Logger
}

// newWaitingCache returns a function with which a manager makes a waitingCache.
func newWaitingCache(log *slog.Logger) cache.NewCacheFunc {
	return func(cfg *rest.Config, opt cache.Options) (cache.Cache, error) {
		api, err := discovery.NewDiscoveryClientForConfigAndClient(cfg, opt.HTTPClient)
		if err != nil {
			return nil, fmt.Errorf("make the client that asks for the API server: %w", err)
		}
		c, err := cache.New(cfg, opt)
		return waitingCache{c, api, log}, err
	}
}

// Start implements cache.Cache.
func (p waitingCache) Start(ctx context.Context) error {
	kube.Await(ctx, p.api, 2*time.Second, p.log)
	return p.Cache.Start(ctx)
}

// mapper knows the resources of the allocator. So an allocator can start while the API server is
// away, and wait for it. Otherwise the process would end, and restart with a growing back-off.
func mapper(*rest.Config, *http.Client) (meta.RESTMapper, error) {
	m := meta.NewDefaultRESTMapper(nil)
	add := func(gv schema.GroupVersion, kind, plural, singular string, scope meta.RESTScope) {
		for _, kind := range []string{kind, kind + "List"} { // a cache of one namespace asks for the list kind
			m.AddSpecific(gv.WithKind(kind), gv.WithResource(plural), gv.WithResource(singular), scope)
		}
	}
	add(corev1.SchemeGroupVersion, "Service", "services", "service", meta.RESTScopeNamespace)
	add(corev1.SchemeGroupVersion, "Node", "nodes", "node", meta.RESTScopeRoot)
	add(corev1.SchemeGroupVersion, "Namespace", "namespaces", "namespace", meta.RESTScopeRoot)
	add(networkingv1.SchemeGroupVersion, "ServiceCIDR", "servicecidrs", "servicecidr", meta.RESTScopeRoot)
	add(coordinationv1.SchemeGroupVersion, "Lease", "leases", "lease", meta.RESTScopeNamespace)
	add(v2.GroupVersion, "ServiceGroup", "servicegroups", "servicegroup", meta.RESTScopeNamespace)
	add(v2.GroupVersion, "LBNodeAgent", "lbnodeagents", "lbnodeagent", meta.RESTScopeNamespace)
	add(bgpv1.GroupVersion, "BGPConfiguration", "configs", "config", meta.RESTScopeNamespace)
	return m, nil
}

// newInformer returns the informer of a cache for the kind of o.
func newInformer(from toolscache.ListerWatcher, o runtime.Object, resync time.Duration, by toolscache.Indexers) toolscache.SharedIndexInformer {
	switch o.(type) {
	case *corev1.Service:
		from = current(from)
	case *networkingv1.ServiceCIDR:
		from = ifServed(from)
	}
	return toolscache.NewSharedIndexInformer(from, o, resync, by)
}

// listing lists Services in their present state. An informer does not: its first list accepts any
// state that a replica of the API server has had (resource version 0), and a later list accepts the
// version at which its watch broke off. For lists in pages, the API server returns exactly the
// requested version. listing requests pages, which take half the time of a stream of all Services
// (WatchList).
type listing struct{ *toolscache.ListWatch }

func current(from toolscache.ListerWatcher) listing {
	of := toolscache.ToListerWatcherWithContext(from)
	return listing{&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.ResourceVersion = ""
			found, err := of.ListWithContext(ctx, o)
			if list, ok := found.(*corev1.ServiceList); ok && err == nil {
				for i := range list.Items {
					_, _ = slim(&list.Items[i]) // before the next page takes memory
				}
			}
			return found, err
		},
		WatchFuncWithContext: of.WatchWithContext,
	}}
}

// IsWatchListSemanticsUnSupported tells the informer to list.
func (listing) IsWatchListSemanticsUnSupported() bool { return true }

// askAgain is the pause before the allocator asks again for a kind that the API server does not
// serve. Minutes are short compared with a cluster upgrade.
const askAgain = 10 * time.Minute

// ifServed lists and watches ServiceCIDRs. It returns none if the API server does not serve them
// (before Kubernetes 1.33), or if an older chart gives no right to read them. Otherwise the caches
// would never be filled, and the allocator would not start.
func ifServed(from toolscache.ListerWatcher) listing {
	of := toolscache.ToListerWatcherWithContext(from)
	return listing{&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			found, err := of.ListWithContext(ctx, o)
			if unserved(err) {
				return &networkingv1.ServiceCIDRList{}, nil
			}
			return found, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			found, err := of.WatchWithContext(ctx, o)
			if unserved(err) {
				return silence(askAgain), nil
			}
			return found, err
		},
	}}
}

// unserved reports whether err says that the API server does not serve the kind to us.
func unserved(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err)
}

// silence is a watch without events that ends after d.
func silence(d time.Duration) watch.Interface {
	w := watch.NewFake()
	time.AfterFunc(d, w.Stop)
	return w
}
