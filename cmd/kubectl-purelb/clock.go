package main

import (
	"net/http"
	"sync"
	"time"
)

// serverClock reads the time from the responses of the API server. Leases expire by that time: the
// clock of the user's machine may be wrong by more than the duration of a Lease.
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
