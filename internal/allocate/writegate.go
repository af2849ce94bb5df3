package allocate

import (
	"context"
	"errors"
	"io"
	"math"
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
	// open ends when the gate is closed.
	open context.Context
	end  context.CancelCauseFunc
	// running are the writes without an answer.
	running sync.WaitGroup

	mu sync.Mutex
	// renewed is when the last successful renewal was sent.
	renewed time.Time
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
	f := &writeGate{lasts: lasts}
	f.open, f.end = context.WithCancelCause(context.Background())
	return f
}

// renew notes that the Lease was renewed by a request that was sent at the time sent. Other
// allocators wait from the arrival of that request, which was not earlier.
func (f *writeGate) renew(sent time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.renewed = sent
}

// close stops all further writes, and cancels the running ones.
func (f *writeGate) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.end(errNotLeading)
}

// wait returns when no write of a closed gate is running.
func (f *writeGate) wait() { f.running.Wait() }

// quiet returns how long writes may still take effect, after the last of them has ended.
func (f *writeGate) quiet() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return writeEnds - time.Since(f.unanswered)
}

// left returns how long the Lease is surely ours. Of two clocks, the one counts that shows the longer
// time since the renewal: the monotonic clock stops while a machine sleeps, and an operator may set
// the wall clock.
func (f *writeGate) left() time.Duration {
	if f.lasts == 0 {
		return math.MaxInt64
	}
	now := time.Now()
	return f.lasts - max(now.Sub(f.renewed), now.Round(0).Sub(f.renewed.Round(0)))
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
	ctx, cancel, err := f.enter(req.Context())
	if err != nil {
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
	f.leave(resp)
	if err != nil {
		cancel()
		return nil, err
	}
	resp.Body = &answer{resp.Body, cancel}
	return resp, nil
}

// enter lets a write through, or returns the reason why not. The context of the write ends when the
// Lease may have expired. A renewal during the write does not prolong it: usually a write takes
// milliseconds, and the Lease is ours for seconds more.
func (f *writeGate) enter(ctx context.Context) (context.Context, context.CancelFunc, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	left := f.left()
	switch {
	case f.open.Err() != nil:
		return nil, nil, errNotLeading
	case left <= 0:
		return nil, nil, errNotRenewed
	}
	f.running.Add(1)
	ctx, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(f.open, func() { cancel(errNotLeading) })
	expiry := time.AfterFunc(left, func() { cancel(errNotRenewed) })
	return ctx, func() {
		unhook()
		expiry.Stop()
		cancel(nil)
	}, nil
}

// leave records the end of a write. Without an answer, or after an answer that names a fault of the
// server, the API server may still perform it.
func (f *writeGate) leave(resp *http.Response) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if resp == nil || resp.StatusCode >= http.StatusInternalServerError {
		f.unanswered = time.Now()
	}
	f.running.Done()
}

// answer is the body of an answer. It can be read until it is closed.
type answer struct {
	io.ReadCloser
	cancel context.CancelFunc
}

// Close implements io.Closer.
func (a *answer) Close() error {
	defer a.cancel()
	return a.ReadCloser.Close()
}
