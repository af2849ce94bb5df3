package allocator

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"purelb.io/purelb/internal/apiserver"
)

// patient is a cache that begins to watch when the API server answers for the
// first time.
type patient struct {
	cache.Cache
	api discovery.DiscoveryInterface
	log *slog.Logger
}

// newPatient returns what makes a patient cache for a manager.
func newPatient(log *slog.Logger) cache.NewCacheFunc {
	return func(cfg *rest.Config, opt cache.Options) (cache.Cache, error) {
		api, err := discovery.NewDiscoveryClientForConfigAndClient(cfg, opt.HTTPClient)
		if err != nil {
			return nil, fmt.Errorf("make the client that asks for the API server: %w", err)
		}
		c, err := cache.New(cfg, opt)
		return patient{c, api, log}, err
	}
}

// Start implements cache.Cache.
func (p patient) Start(ctx context.Context) error {
	apiserver.Await(ctx, p.api, 2*time.Second, p.log)
	return p.Cache.Start(ctx)
}

// mapper lets an allocator start while the API server is away and wait for it,
// instead of ending again and again, ever more slowly.
func mapper(*rest.Config, *http.Client) (meta.RESTMapper, error) {
	core := corev1.SchemeGroupVersion
	namespaces := meta.NewDefaultRESTMapper(nil)
	namespaces.AddSpecific(core.WithKind("Namespace"), core.WithResource("namespaces"), core.WithResource("namespace"), meta.RESTScopeRoot)
	return meta.FirstHitRESTMapper{MultiRESTMapper: meta.MultiRESTMapper{apiserver.Mapper(), namespaces}}, nil
}
