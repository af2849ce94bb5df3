package allocator

import (
	"context"
	"io"
	"net/http"
	"strings"
)

// wrap has what is sent through next pass the fence, but for what only reads.
func (f *fence) wrap(next http.RoundTripper) http.RoundTripper {
	return through(func(req *http.Request) (*http.Response, error) {
		if req.Method == http.MethodGet || req.Method == http.MethodHead {
			return next.RoundTrip(req)
		}
		return f.send(req, next)
	})
}

type through func(*http.Request) (*http.Response, error)

func (t through) RoundTrip(req *http.Request) (*http.Response, error) { return t(req) }

// send sends a write, and gives it up when the time of the leader is over.
func (f *fence) send(req *http.Request, next http.RoundTripper) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	if err := f.enter(req, cancel); err != nil {
		cancel(err)
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	resp, err := next.RoundTrip(req.WithContext(ctx))
	f.leave(req, resp)
	if err != nil {
		cancel(err)
		return nil, err
	}
	resp.Body = &answer{resp.Body, cancel}
	return resp, nil
}

// enter lets a write through, or says why not.
func (f *fence) enter(req *http.Request, cancel context.CancelCauseFunc) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.shut(); err != nil {
		return err
	}
	if len(f.underway) == 0 {
		f.ended = make(chan struct{})
	}
	f.underway[req] = cancel
	return nil
}

// leave notes what has become of a write.
//
// Each write holds for one version of its object. So when a write is answered
// with success or a conflict, that version is past, and what was sent earlier
// can but fail; when the object is gone too. Without such an answer it may
// still be done, however late.
func (f *fence) leave(req *http.Request, resp *http.Response) {
	f.mu.Lock()
	defer f.mu.Unlock()
	object := strings.TrimSuffix(req.URL.Path, "/status")
	switch {
	case resp == nil, resp.StatusCode >= http.StatusInternalServerError:
		f.doubtful[object] = true
	case resp.StatusCode < http.StatusBadRequest, resp.StatusCode == http.StatusConflict, resp.StatusCode == http.StatusNotFound:
		delete(f.doubtful, object)
	}
	delete(f.underway, req)
	if len(f.underway) == 0 {
		close(f.ended)
		f.ended = nil
	}
}

// answer is the body of an answer, which can be read until it is closed.
type answer struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

// Close implements io.Closer.
func (a *answer) Close() error {
	defer a.cancel(nil)
	return a.ReadCloser.Close()
}
