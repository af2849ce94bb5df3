package netboxtest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
)

// Transport carries requests to h without a network, so that a test can use a fake clock. If a
// client gives up, the server still completes its request.
func Transport(h http.Handler) http.RoundTripper { return transport{h} }

type transport struct{ handler http.Handler }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	served := r.Clone(r.Context())
	if served.Host == "" {
		served.Host = served.URL.Host
	}
	body, err := io.ReadAll(bodyOf(r))
	if err != nil {
		return nil, err
	}
	served.Body = io.NopCloser(bytes.NewReader(body))
	done := make(chan *http.Response, 1)
	broke := make(chan error, 1)
	go func() {
		defer func() {
			if reason := recover(); reason != nil {
				broke <- fmt.Errorf("connection broken: %w", io.ErrUnexpectedEOF)
			}
		}()
		w := httptest.NewRecorder()
		t.handler.ServeHTTP(w, served)
		done <- w.Result()
	}()
	select {
	case response := <-done:
		response.Request = r
		return response, nil
	case err := <-broke:
		return nil, err
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

func bodyOf(r *http.Request) io.Reader {
	if r.Body == nil {
		return http.NoBody
	}
	return r.Body
}

// Execute serves a request and discards the answer.
func Execute(h http.Handler, r *http.Request) { h.ServeHTTP(httptest.NewRecorder(), r) }
