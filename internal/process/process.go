// Package process is what the programs have in common as processes: how their
// parts begin and end together, their log, and the server of their metrics and
// probes. It knows nothing of Kubernetes, nor of what the programs are for.
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

// Outlive runs first until ctx is done, and others until first has ended too: it
// may need them to say goodbye. When one of them ends, so do all.
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

// begin begins all parts, has end called when one of them ends, and returns what
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
