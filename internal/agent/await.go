package agent

import (
	"context"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
)

// once runs parts when the API server answers for the first time. A watch that
// begins while it is away tries ever more slowly, and may notice its return a
// minute too late; meanwhile the others take this node for dead.
func once(api discovery.DiscoveryInterface, every time.Duration, log *slog.Logger, parts ...func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		for said := false; ctx.Err() == nil && !answers(ctx, api, every); said = true {
			if !said {
				log.WarnContext(ctx, "waitingForAPIServer")
			}
			pause(ctx, every)
		}
		// Parts that begin when ctx is done end at once.
		return together(ctx, parts...)
	}
}

// answers says whether the API server is there, even if it does not like us.
func answers(ctx context.Context, api discovery.DiscoveryInterface, limit time.Duration) bool {
	err := api.RESTClient().Get().AbsPath("/version").Timeout(limit).Do(ctx).Error()
	return err == nil || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err)
}
