package kube

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"purelb.io/purelb/internal/testing/expect"
)

// answer is an API server. 0 means that the server is away. Any other value is the HTTP status of
// every answer.
type answer struct{ atomic.Int32 }

func (a *answer) RoundTrip(r *http.Request) (*http.Response, error) {
	if a.Load() == 0 {
		return nil, errors.New("connection refused")
	}
	w := httptest.NewRecorder()
	w.WriteHeader(int(a.Load()))
	response := w.Result()
	response.Request = r
	return response, nil
}

func TestAwaitReturnsWhenTheAPIServerAnswers(t *testing.T) {
	for _, status := range []int32{http.StatusOK, http.StatusForbidden, http.StatusUnauthorized} {
		synctest.Test(t, func(t *testing.T) {
			server := &answer{}
			clients, err := kubernetes.NewForConfig(&rest.Config{Host: "http://api", Transport: server, QPS: -1})
			expect.NoError(t, err)
			var began atomic.Bool
			go func() {
				Await(t.Context(), clients.Discovery(), 2*time.Second, slog.New(slog.DiscardHandler))
				began.Store(true)
			}()
			time.Sleep(time.Hour)
			server.Store(http.StatusServiceUnavailable)
			time.Sleep(time.Hour)
			if began.Load() {
				t.Error("Await returned without the API server")
			}
			server.Store(status)
			time.Sleep(5 * time.Second)
			if !began.Load() {
				t.Errorf("status %d: Await did not return within 5 s after the API server came back", status)
			}
		})
	}
}

func TestAwaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clients, err := kubernetes.NewForConfig(&rest.Config{Host: "http://api", Transport: &answer{}, QPS: -1})
		expect.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		Await(ctx, clients.Discovery(), 2*time.Second, slog.New(slog.DiscardHandler))
		if ctx.Err() == nil {
			t.Error("Await succeeded without the API server")
		}
	})
}
