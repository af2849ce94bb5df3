package agent

import "context"

// outlive runs first until ctx is done, and others until first has ended too: it
// may need them to say goodbye. When one of them ends, so do all.
func outlive(ctx context.Context, first func(context.Context) error, others ...func(context.Context) error) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	longer := context.WithoutCancel(ctx)
	parts := []func(context.Context) error{func(context.Context) error { return first(ctx) }}
	for _, other := range others {
		parts = append(parts, func(ctx context.Context) error {
			defer end()
			return other(ctx)
		})
	}
	return together(longer, parts...)
}
