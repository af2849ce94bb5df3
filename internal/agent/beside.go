package agent

import (
	"context"
	"sync"
)

// An errand takes long, so it runs beside the loop. It returns what the loop is
// to note of it, or nil when there is nothing.
type errand func(ctx context.Context) note

// A note is for the loop to take in.
type note func()

// beside are the errands that are under way.
type beside struct {
	wait  sync.WaitGroup
	notes chan note
}

// start begins errands, which end early when ctx is done.
func (b *beside) start(ctx context.Context, errands []errand) {
	for _, run := range errands {
		b.wait.Go(func() {
			n := run(ctx)
			if n == nil {
				return
			}
			select {
			case b.notes <- n:
			case <-ctx.Done():
			}
		})
	}
}
