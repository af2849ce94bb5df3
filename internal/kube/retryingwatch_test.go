package kube

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// server is an API server that cannot be reached before it is up.
type server struct {
	up    time.Time
	asked []time.Time
}

func (s *server) RoundTrip(*http.Request) (*http.Response, error) {
	s.asked = append(s.asked, time.Now())
	if time.Now().Before(s.up) {
		return nil, syscall.ECONNREFUSED
	}
	return &http.Response{StatusCode: http.StatusForbidden, Body: http.NoBody}, nil
}

// request sends a request to s through retryingWatch. It returns the log and the
// status of the answer.
func request(ctx context.Context, s *server, method, target string) (string, int, error) {
	var log strings.Builder
	p := retryingWatch{s, slog.New(slog.NewTextHandler(&log, nil))}
	answer, err := p.RoundTrip(httptest.NewRequestWithContext(ctx, method, target, nil))
	if err != nil {
		return log.String(), 0, err
	}
	return log.String(), answer.StatusCode, answer.Body.Close()
}

func TestWatchNoticesTheAPIServersReturn(t *testing.T) {
	for _, query := range []string{"watch=true", "limit=500&resourceVersion=0"} {
		synctest.Test(t, func(t *testing.T) {
			s := &server{up: time.Now().Add(2 * time.Minute)}
			log, status, err := request(t.Context(), s, http.MethodGet, "https://10.96.0.1/api/v1/services?"+query)
			if err != nil || status != http.StatusForbidden {
				t.Fatalf("%s: got %v, %v; want the answer of the server", query, status, err)
			}
			if late := time.Since(s.up); late > 3*retryMax/2 {
				t.Errorf("%s: the watch noticed the return %v late", query, late)
			}
			if n := len(s.asked); n < 20 || n > 60 {
				t.Errorf("%s: the watch sent %d requests in two minutes", query, n)
			}
			if strings.Count(log, "watchWaits path=/api/v1/services error=\"connection refused\"") != 2 || strings.Count(log, "watchGoesOn") != 1 {
				t.Errorf("%s: logged\n%s", query, log)
			}
		})
	}
}

func TestWaitingWatchEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		_, _, err := request(ctx, &server{up: began.Add(time.Hour)}, http.MethodGet, "https://10.96.0.1/api/v1/services?watch=1")
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, syscall.ECONNREFUSED) || time.Since(began) != time.Minute {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
	})
}

func TestOtherRequestsFailAtOnce(t *testing.T) {
	for _, tt := range []struct{ method, target string }{
		{http.MethodGet, "https://10.96.0.1/version"},
		{http.MethodGet, "https://10.96.0.1/api/v1/services?limit=500"},
		{http.MethodPut, "https://10.96.0.1/apis/coordination.k8s.io/v1/namespaces/n/leases/l"},
		{http.MethodDelete, "https://10.96.0.1/api/v1/services?resourceVersion=7"},
	} {
		s := &server{up: time.Now().Add(time.Hour)}
		log, _, err := request(t.Context(), s, tt.method, tt.target)
		if !errors.Is(err, syscall.ECONNREFUSED) || len(s.asked) != 1 || log != "" {
			t.Errorf("%s %s: got %v after %d requests, logged %q", tt.method, tt.target, err, len(s.asked), log)
		}
	}
}
