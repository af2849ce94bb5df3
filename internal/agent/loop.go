package agent

import (
	"context"
	"sync"
	"time"

	"purelb.io/purelb/internal/announce"
)

// Run keeps the node's addresses until ctx is done. Then it says goodbye, if
// this is the end of the agent on this node and not only of this process.
func (a *Agent) Run(ctx context.Context) error {
	kernel, err := a.Kernel.Changes(ctx)
	if err != nil {
		return err
	}
	heard, err := a.Kernel.Listen(ctx, a.held.read)
	if err != nil {
		return err
	}
	a.background.wait.Go(func() { a.watchLinks(ctx) })
	a.keep(ctx, kernel, heard)
	a.background.wait.Wait()
	a.depart(context.WithoutCancel(ctx))
	return nil
}

// keep makes one pass after the other until ctx is done.
func (a *Agent) keep(ctx context.Context, kernel <-chan struct{}, heard <-chan announce.Heard) {
	var failing string
	retry := retryMin
	for ctx.Err() == nil {
		began := time.Now()
		a.drain(ctx)
		left, err := a.guardedPass(ctx, began)
		if err == nil {
			retry = retryMin
		} else {
			left.next = sooner(left.next, time.Now().Add(retry))
			retry = min(2*retry, retryMax)
			a.Metrics.passErrors.Inc()
		}
		failing = a.logFailure(ctx, err, failing)
		a.background.start(ctx, left.tasks)
		pause(ctx, min(time.Since(began), maxPause))
		a.wait(ctx, kernel, heard, time.Until(left.next))
	}
}

// wait returns when there is something to do.
func (a *Agent) wait(ctx context.Context, kernel <-chan struct{}, heard <-chan announce.Heard, limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case h, open := <-heard:
			if !open {
				heard = nil // the end is near
			}
			if !open || !a.hear(ctx, time.Now(), h) {
				continue
			}
		case done := <-a.background.completions:
			done()
		case m := <-a.Peers.Received():
			if !a.readMessage(ctx, m) {
				continue
			}
		case <-ctx.Done():
		case <-kernel:
		case <-a.Cluster.Changed():
		case <-a.Peers.Changed():
		case <-timer.C:
		}
		return
	}
}

// drain takes in what has come already.
func (a *Agent) drain(ctx context.Context) {
	for {
		select {
		case done := <-a.background.completions:
			done()
		case m := <-a.Peers.Received():
			a.readMessage(ctx, m)
		default:
			return
		}
	}
}

// guardedPass is pass within its time limit, with its pulse taken.
func (a *Agent) guardedPass(ctx context.Context, now time.Time) (todo, error) {
	a.pulse.Begin(now)
	defer a.pulse.End()
	ctx, cancel := context.WithTimeout(ctx, passLimit)
	defer cancel()
	return a.pass(ctx, now)
}

// logFailure logs err unless it is the same as last time.
func (a *Agent) logFailure(ctx context.Context, err error, last string) string {
	switch {
	case ctx.Err() != nil: // whatever failed, it was to end
	case err == nil && last != "":
		a.Log.InfoContext(ctx, "recovered", "node", a.Node)
	case err != nil && err.Error() != last:
		a.Log.WarnContext(ctx, "passFailed", "node", a.Node, "error", err)
	}
	if err == nil {
		return ""
	}
	return err.Error()
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// A task takes long, so it runs in the background. It returns its completion, or nil when
// the loop has nothing to do for it.
type task func(ctx context.Context) completion

// A completion is run by the loop, because it changes the state of the loop.
type completion func()

// background is the tasks that are under way.
type background struct {
	wait        sync.WaitGroup
	completions chan completion
}

// start begins tasks, which end early when ctx is done.
func (b *background) start(ctx context.Context, tasks []task) {
	for _, run := range tasks {
		b.wait.Go(func() {
			done := run(ctx)
			if done == nil {
				return
			}
			select {
			case b.completions <- done:
			case <-ctx.Done():
			}
		})
	}
}
