package kube

import (
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"purelb.io/purelb/internal/backoff"
)

// retryMin and retryMax are the shortest and the longest mean pause before a watch
// tries again to reach the API server.
const retryMin, retryMax = 500 * time.Millisecond, 5 * time.Second

// sayAgain is how often a waiting watch logs its reason.
const sayAgain = time.Minute

// retryingWatch makes requests for watches, and for the lists that they begin with,
// wait until the API server is reached. Client-go's reflector sends these requests.
// Its own back-off doubles up to a minute, so after an outage of half a minute it
// might learn of changes a minute late. Every answer of the API server passes, even
// a refusal.
type retryingWatch struct {
	next http.RoundTripper
	log  *slog.Logger
}

// RoundTrip implements http.RoundTripper.
func (p retryingWatch) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := p.next.RoundTrip(r)
	if err == nil || !watches(r) || r.Context().Err() != nil {
		return answer, err
	}
	began, said := time.Now(), time.Time{}
	for pauses := (backoff.Pauses{Min: retryMin, Max: retryMax, Spread: true}); ; {
		if time.Since(said) >= sayAgain {
			p.log.WarnContext(r.Context(), "watchWaits", "path", r.URL.Path, "error", err)
			said = time.Now()
		}
		if !backoff.Sleep(r.Context(), pauses.Next()) {
			// After some connection errors, a reflector sleeps before it ends.
			return nil, fmt.Errorf("%w while the API server was out of reach: %s", r.Context().Err(), err.Error())
		}
		if answer, err = p.next.RoundTrip(r); err == nil {
			p.log.InfoContext(r.Context(), "watchGoesOn", "path", r.URL.Path, "after", time.Since(began).Round(time.Millisecond))
			return answer, nil
		}
	}
}

// watches reports whether r is a watch, or a list that a watch follows: such a list has a
// resourceVersion. (The allocator's list of Services must be current, and has none.) These
// requests have no body, so they can be sent again.
func watches(r *http.Request) bool {
	q := r.URL.Query()
	return r.Method == http.MethodGet && (q.Has("watch") || q.Has("resourceVersion"))
}
