// Package kube connects the programs to the API server, and lets them start
// while it is away. It watches objects for the programs, and keeps of each only what
// the program uses. It does not know what the objects mean.
//
// Read reach.go (the connection), kube.go (the wait for the API server), watch.go (a watch of one kind)
// and retryingwatch.go (how it outlasts the API server).
package kube

import (
	"context"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"

	"purelb.io/purelb/internal/backoff"
)

// Await returns when the API server answers, or when ctx is done. every is the pause between two
// requests. Call Await before a watch begins: a watch that begins while the API server is away
// backs off, and may notice seconds too late that the API server is back.
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
