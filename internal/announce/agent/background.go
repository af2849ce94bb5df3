package agent

import (
	"context"
	"sync"
	"time"

	"purelb.io/purelb/internal/announce"
)

// todo is the work that a step leaves.
type todo struct {
	// tasks run in the background.
	tasks []task
	// next is when another pass is needed without an event. Zero means: never.
	next time.Time
}

// together joins the tasks of several steps, and returns the earliest of their times.
func together(steps ...todo) todo {
	var all todo
	for _, t := range steps {
		all.tasks = append(all.tasks, t.tasks...)
		all.next = announce.Sooner(all.next, t.next)
	}
	return all
}

// A task is slow, so it runs in the background. It returns its completion, or nil if the loop
// has nothing to do afterwards.
type task func(ctx context.Context) completion

// The loop runs a completion, because a completion changes the state of the loop.
type completion func()

// background holds the running tasks.
type background struct {
	wait        sync.WaitGroup
	completions chan completion
}

// start starts tasks. They end early when ctx is done.
func (b *background) start(ctx context.Context, tasks []task) {
	for _, run := range tasks {
		b.wait.Go(func() {
			if done := run(ctx); done != nil {
				b.complete(ctx, done)
			}
		})
	}
}

// complete gives done to the loop.
func (b *background) complete(ctx context.Context, done completion) {
	select {
	case b.completions <- done:
	case <-ctx.Done():
	}
}
