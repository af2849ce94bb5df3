// Package backoff decides when work runs: on request, at intervals, and with growing pauses after
// failures. It waits until a time has passed, a signal arrives or a context ends. It does not know
// what the work is.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Sleep waits until d has passed, and returns true. It returns false if ctx ended first.
func Sleep(ctx context.Context, d time.Duration) bool { return Wait(ctx, d, nil) }

// Wait is Sleep, but a signal in news also ends it.
func Wait(ctx context.Context, d time.Duration, news <-chan struct{}) bool {
	if ctx.Err() != nil || d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-news:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// Poke puts a signal into c, unless c holds one already. c has room for one signal. So one signal
// may stand for several changes.
func Poke(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Pauses are the pauses between failed attempts. The first is Min. Each is twice as long as the
// one before, up to Max. With Spread each pause is between half and one and a half times as long,
// so that many machines do not try again at the same moment. It is not safe for concurrent use.
type Pauses struct {
	Min, Max time.Duration
	Spread   bool
	next     time.Duration
}

// Next returns the pause after one more failed attempt.
func (p *Pauses) Next() time.Duration {
	pause := min(max(p.next, p.Min), p.Max)
	p.next = min(2*pause, p.Max)
	if p.Spread && pause > 0 {
		return pause/2 + rand.N(pause)
	}
	return pause
}

// Reset makes the next pause the first one again. Call it after a success.
func (p *Pauses) Reset() { p.next = 0 }

// After returns the pause after a number of failures in a row, for callers that only count
// failures. It is first after one failure, doubles with each further one, and is at most longest.
func After(failures int, first, longest time.Duration) time.Duration {
	return min(first<<min(max(failures-1, 0), 16), longest)
}
