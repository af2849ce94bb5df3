package allocator

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// writeGate stands between the leader and the API server. It lets writes through only while the
// Lease is surely ours. It is the first of three guards against a leader that does not know that it
// has lost the lead:
//
//   - the gate: when the Lease may have expired, it sends no more writes, and cancels
//     writes without an answer;
//   - Run returns only when no write is running any more, and leaderLock releases the
//     Lease only if the outcome of every write is known;
//   - the API server refuses a write that left the gate in time but arrives late, because
//     the next leader has touched the Service (takeover).
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
	// doubtful are the Services with a write whose outcome is unknown.
	doubtful map[string]bool
}

var (
	errNotLeading = errors.New("not sent: this allocator does not lead any more")
	errNotRenewed = errors.New("not sent: the Lease was not renewed in time, and another allocator may lead soon")
)

func newWriteGate(lasts time.Duration) *writeGate {
	f := &writeGate{
		lasts:    lasts,
		underway: map[*http.Request]context.CancelCauseFunc{},
		doubtful: map[string]bool{},
	}
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

// doubts returns how many Services have a write whose outcome is unknown: the API server
// may have performed it, or may still perform it.
func (f *writeGate) doubts() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.doubtful)
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

// send sends a write, and cancels it when the time of the Lease ends.
func (f *writeGate) send(req *http.Request, next http.RoundTripper) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	if err := f.enter(req, cancel); err != nil {
		cancel(err)
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	resp, err := next.RoundTrip(req.WithContext(ctx))
	f.leave(req, resp, stopped(resp))
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

// leave records the outcome of a write.
//
// Each write is for one version of its object. After an answer of success or conflict, that version
// is replaced, so all earlier writes for it must fail. The same holds if the object is gone.
// Without such an answer the API server may still perform the write much later. A write that
// admission has stopped is not performed.
//
// Only the outcomes for Services are recorded. A late write of the status of another object gives
// no address to any Service, and the reporter corrects it.
func (f *writeGate) leave(req *http.Request, resp *http.Response, stopped bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	object := strings.TrimSuffix(req.URL.Path, "/status")
	switch {
	case stopped:
	case resp == nil, resp.StatusCode >= http.StatusInternalServerError:
		if strings.Contains(object, "/services/") {
			f.doubtful[object] = true
		}
	case resp.StatusCode < http.StatusBadRequest, resp.StatusCode == http.StatusConflict, resp.StatusCode == http.StatusNotFound:
		delete(f.doubtful, object)
	}
	delete(f.underway, req)
	if len(f.underway) == 0 {
		close(f.ended)
		f.ended = nil
	}
}

// settled records that the Service of this name is gone, has another type, or was replaced by
// another Service. Its old version no longer exists, so earlier writes of it must fail.
func (f *writeGate) settled(name types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	path := "/api/v1/namespaces/" + name.Namespace + "/services/" + name.Name
	// The API server may be behind a proxy that adds a prefix.
	maps.DeleteFunc(f.doubtful, func(object string, _ bool) bool { return strings.HasSuffix(object, path) })
}

// mostFault limits how much is read of an error answer.
const mostFault = 64 << 10

// stopped reports whether resp is a failure of an admission webhook. The API server calls webhooks
// before it writes anything, so the write was not performed. Without this check, the outcome would
// stay unknown for ever for a Service with a broken webhook. The body can be read again afterwards.
func stopped(resp *http.Response) bool {
	if resp == nil || resp.StatusCode != http.StatusInternalServerError {
		return false
	}
	said, _ := io.ReadAll(io.LimitReader(resp.Body, mostFault))
	resp.Body = &again{io.MultiReader(bytes.NewReader(said), resp.Body), resp.Body}
	// The texts are those of k8s.io/apiserver; the answer may be JSON or protobuf.
	return bytes.Contains(said, []byte("failed calling webhook")) ||
		bytes.Contains(said, []byte("admission webhook")) && bytes.Contains(said, []byte("denied the request"))
}

// again is a body whose beginning is read again.
type again struct {
	io.Reader
	io.Closer
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
