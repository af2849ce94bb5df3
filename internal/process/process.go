// Package process holds what every program needs as a process: the common start and end of its
// parts, the log, and the server for metrics and probes. It knows nothing of Kubernetes or of the
// work of the programs.
package process

import (
	"context"
	"errors"
)

// Together runs all parts until ctx is done or one of them ends, and waits for
// the others to end too.
func Together(ctx context.Context, parts ...func(context.Context) error) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	return begin(ctx, end, parts)()
}

// Outlive runs first until ctx is done. It runs others until first has ended, because first may
// need them at its end. When one of them ends, all end.
func Outlive(ctx context.Context, first func(context.Context) error, others ...func(context.Context) error) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	longer, endAll := context.WithCancel(context.WithoutCancel(ctx))
	defer endAll()
	wait := begin(longer, end, others)
	err := first(ctx)
	endAll()
	return errors.Join(err, wait())
}

// begin starts all parts, and calls end when one of them ends. It returns a function that
// waits for all of them.
func begin(ctx context.Context, end func(), parts []func(context.Context) error) (wait func() error) {
	ended := make(chan error, len(parts))
	for _, part := range parts {
		go func() {
			defer end()
			ended <- part(ctx)
		}()
	}
	return func() error {
		var errs []error
		for range parts {
			errs = append(errs, <-ended)
		}
		return errors.Join(errs...)
	}
}
