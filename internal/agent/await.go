package agent

import (
	"context"
	"log/slog"
	"time"

	"k8s.io/client-go/discovery"

	"purelb.io/purelb/internal/apiserver"
)

// once runs parts when the API server answers for the first time: if they were
// late to notice its return, the others would take this node for dead.
func once(api discovery.DiscoveryInterface, every time.Duration, log *slog.Logger, parts ...func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		apiserver.Await(ctx, api, every, log)
		// Parts that begin when ctx is done end at once.
		return together(ctx, parts...)
	}
}
