package main

import (
	"net/http"
	"sync"
	"time"
)

// serverClock learns the time from the answers of the API server. Leases are judged by
// that: the clock of the machine of a person may be wrong by more than a Lease lasts.
type serverClock struct {
	mu   sync.Mutex
	said time.Time
}

func (c *serverClock) wrap(next http.RoundTripper) http.RoundTripper {
	return listener{c, next}
}

type listener struct {
	*serverClock
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (l listener) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := l.next.RoundTrip(r)
	if err == nil {
		if t, wrong := http.ParseTime(answer.Header.Get("Date")); wrong == nil {
			l.mu.Lock()
			l.said = t
			l.mu.Unlock()
		}
	}
	return answer, err
}
