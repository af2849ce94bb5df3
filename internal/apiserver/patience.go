package apiserver

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"
)

// retryMin and retryMax are between which pauses a watch that does not reach the
// API server is tried again: as long each time on the average, half as long at
// least and one and a half times as long at most, so that many that wait do not
// come back at the same moment.
const retryMin, retryMax = 500 * time.Millisecond, 5 * time.Second

// sayAgain is how often a watch that waits says why.
const sayAgain = time.Minute

// patience has requests for watches, and for the lists that they begin with, wait
// until the API server is reached. Client-go's reflector, which makes them, doubles
// its pauses up to a minute, and after an outage of half a minute would learn of
// changes only a minute after everybody else. What the API server answers, be it
// a refusal, goes through.
type patience struct {
	next http.RoundTripper
	log  *slog.Logger
}

// RoundTrip implements http.RoundTripper.
func (p patience) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := p.next.RoundTrip(r)
	if err == nil || !watches(r) || r.Context().Err() != nil {
		return answer, err
	}
	began, said := time.Now(), time.Time{}
	for pause := retryMin; ; pause = min(2*pause, retryMax) {
		if time.Since(said) >= sayAgain {
			p.log.WarnContext(r.Context(), "watchWaits", "path", r.URL.Path, "error", err)
			said = time.Now()
		}
		if !wait(r.Context(), pause/2+rand.N(pause)) {
			// Of some errors of connections a reflector would sleep before it ends.
			return nil, fmt.Errorf("%w while the API server was out of reach: %s", r.Context().Err(), err.Error())
		}
		if answer, err = p.next.RoundTrip(r); err == nil {
			p.log.InfoContext(r.Context(), "watchGoesOn", "path", r.URL.Path, "after", time.Since(began).Round(time.Millisecond))
			return answer, nil
		}
	}
}

// watches says whether r is a watch, or a list that says how old it may be, as
// those do that a watch follows. (The allocator's list of Services must be of now,
// and says nothing.) They have no body that is spent by sending them.
func watches(r *http.Request) bool {
	q := r.URL.Query()
	return r.Method == http.MethodGet && (q.Has("watch") || q.Has("resourceVersion"))
}

// wait waits for d, and returns whether ctx goes on.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
