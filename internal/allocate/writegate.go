package allocate

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// writeGate stands between the leader and the API server. It lets writes through only while the
// Lease is surely ours, and limits how late a write can take effect:
//
//   - When the Lease may have expired, the gate sends no more writes, and cancels those without an
//     answer.
//   - The API server gives up each write after writeTimeout.
//   - A write without an answer may take effect for writeEnds. Three places wait for that: the next
//     leader before it reads the Services (leaderLock.quiet), a leader that stops before it releases the
//     Lease, and the loop of Services before it frees an address (memory).
type writeGate struct {
	// lasts is how long the Lease is surely ours after a renewal was sent. 0 means for ever.
	lasts time.Duration

	mu sync.Mutex
	// renewed is when the last successful renewal was sent.
	renewed time.Time
	closed  bool
	// expiry cancels the running writes when the Lease is not renewed in time.
	expiry *time.Timer
	// underway are the writes without an answer, each with the function that cancels it.
	underway map[*http.Request]context.CancelCauseFunc
	// ended is closed, and replaced by nil, when the last running write ends.
	ended chan struct{}
	// unanswered is when the last write ended whose outcome is unknown.
	unanswered time.Time
}

// writeTimeout is how long the API server may work on a write. It counts from the arrival of the
// write. After that the API server sends nothing to etcd for it.
const writeTimeout = 5 * time.Second

// writeEnds is how long a write may still take effect after it was given up. It allows a second for
// the way to the API server and to etcd. It is not longer than leaseDuration - renewDeadline, so the
// writes of a leader end before its Lease expires.
const writeEnds = writeTimeout + time.Second

var (
	errNotLeading = errors.New("not sent: this allocator does not lead any more")
	errNotRenewed = errors.New("not sent: the Lease was not renewed in time, and another allocator may lead soon")
)

func newWriteGate(lasts time.Duration) *writeGate {
	f := &writeGate{lasts: lasts, underway: map[*http.Request]context.CancelCauseFunc{}}
	f.expiry = time.AfterFunc(lasts, f.expire)
	return f
}

// renew notes that the Lease was renewed by a request that was sent at the time sent. Other
// allocators wait from the arrival of that request, which was not earlier.
func (f *writeGate) renew(sent time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.renewed = sent
	f.expiry.Reset(f.lasts - time.Since(sent))
}

// expire cancels the running writes if the Lease was not renewed in the meantime.
func (f *writeGate) expire() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.shut(); err != nil {
		f.giveUp(err)
	}
}

// close stops all further writes, and cancels the running ones.
func (f *writeGate) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.expiry.Stop()
	f.giveUp(errNotLeading)
}

// wait returns when no write is running.
func (f *writeGate) wait() {
	f.mu.Lock()
	ended := f.ended
	f.mu.Unlock()
	if ended != nil {
		<-ended
	}
}

// quiet returns how long writes may still take effect, after the last of them has ended.
func (f *writeGate) quiet() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return writeEnds - time.Since(f.unanswered)
}

// shut returns the reason why nothing may be sent now, or nil. Neither of two clocks may show that
// the time is over: the monotonic clock stops while a machine sleeps, and an operator may set the
// wall clock.
func (f *writeGate) shut() error {
	now := time.Now()
	switch {
	case f.closed:
		return errNotLeading
	case f.lasts == 0:
		return nil
	case now.Sub(f.renewed) >= f.lasts, now.Round(0).Sub(f.renewed.Round(0)) >= f.lasts:
		return errNotRenewed
	}
	return nil
}

func (f *writeGate) giveUp(why error) {
	for _, cancel := range f.underway {
		cancel(why)
	}
}

// wrap returns next behind the write gate. Requests that only read do not pass the gate.
func (f *writeGate) wrap(next http.RoundTripper) http.RoundTripper {
	return through(func(req *http.Request) (*http.Response, error) {
		if req.Method == http.MethodGet || req.Method == http.MethodHead {
			return next.RoundTrip(req)
		}
		return f.send(req, next)
	})
}

type through func(*http.Request) (*http.Response, error)

func (t through) RoundTrip(req *http.Request) (*http.Response, error) { return t(req) }

// send sends a write with the timeout of the API server, and cancels it when the time of the Lease
// ends.
func (f *writeGate) send(req *http.Request, next http.RoundTripper) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	if err := f.enter(req, cancel); err != nil {
		cancel(err)
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	limited := req.Clone(ctx)
	query := limited.URL.Query()
	query.Set("timeout", writeTimeout.String())
	limited.URL.RawQuery = query.Encode()
	resp, err := next.RoundTrip(limited)
	f.leave(req, resp)
	if err != nil {
		cancel(err)
		return nil, err
	}
	resp.Body = &answer{resp.Body, cancel}
	return resp, nil
}

// enter lets a write through, or returns the reason why not.
func (f *writeGate) enter(req *http.Request, cancel context.CancelCauseFunc) error {
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

// leave records the end of a write. Without an answer, or after an answer that names a fault of the
// server, the API server may still perform it.
func (f *writeGate) leave(req *http.Request, resp *http.Response) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if resp == nil || resp.StatusCode >= http.StatusInternalServerError {
		f.unanswered = time.Now()
	}
	delete(f.underway, req)
	if len(f.underway) == 0 {
		close(f.ended)
		f.ended = nil
	}
}

// answer is the body of an answer. It can be read until it is closed.
type answer struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

// Close implements io.Closer.
func (a *answer) Close() error {
	defer a.cancel(nil)
	return a.ReadCloser.Close()
}
