package netbox

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"purelb.io/purelb/internal/backoff"
)

// longestAsked limits the delay that a server may ask for.
const longestAsked = 10 * time.Minute

// turn lets only one request at a time pass, and at most one per gap.
type turn struct {
	gap  time.Duration
	free chan time.Time // holds when the next request may be sent
}

func newTurn(gap time.Duration) *turn {
	t := &turn{gap: gap, free: make(chan time.Time, 1)}
	t.free <- time.Time{}
	return t
}

// wait returns when it is the caller's turn. The caller must call done after that.
func (t *turn) wait(ctx context.Context) error {
	var next time.Time
	select {
	case next = <-t.free:
	case <-ctx.Done():
		return ctx.Err()
	}
	if !backoff.Sleep(ctx, time.Until(next)) {
		t.free <- next
		return ctx.Err()
	}
	return nil
}

func (t *turn) done(sent time.Time) { t.free <- sent.Add(t.gap) }

// retryAfter reads the header Retry-After, in seconds or as a date. Proxies in front of
// NetBox send it.
func retryAfter(h http.Header, now time.Time) time.Duration {
	value := h.Get("Retry-After")
	var wait time.Duration
	if seconds, err := strconv.Atoi(value); err == nil {
		wait = time.Duration(min(seconds, int(longestAsked/time.Second))) * time.Second
	} else if date, err := http.ParseTime(value); err == nil {
		wait = date.Sub(now)
	}
	return max(0, min(wait, longestAsked))
}
