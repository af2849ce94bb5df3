package allocator

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// patient is a cache that begins to watch when the API server answers for the
// first time: a watch that begins while it is away tries ever more slowly, and
// may notice its return a minute too late.
type patient struct {
	cache.Cache
	api discovery.DiscoveryInterface
}

func newPatient(cfg *rest.Config, opt cache.Options) (cache.Cache, error) {
	api, err := discovery.NewDiscoveryClientForConfigAndClient(cfg, opt.HTTPClient)
	if err != nil {
		return nil, fmt.Errorf("make the client that asks for the API server: %w", err)
	}
	c, err := cache.New(cfg, opt)
	return patient{c, api}, err
}

// Start implements cache.Cache.
func (p patient) Start(ctx context.Context) error {
	const every = 2 * time.Second
	for !p.answers(ctx, every) && ctx.Err() == nil {
		pause(ctx, every)
	}
	return p.Cache.Start(ctx)
}

// answers says whether the API server is there, even if it does not like us.
func (p patient) answers(ctx context.Context, limit time.Duration) bool {
	err := p.api.RESTClient().Get().AbsPath("/version").Timeout(limit).Do(ctx).Error()
	return err == nil || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err)
}
