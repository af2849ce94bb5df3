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

// writeGate stands between the leader and the API server, and lets writes through
// for as long as the Lease is surely ours. It is the first of three guards
// against a leader that does not know that its time is over:
//
//   - the gate: once the time is over nothing is sent any more, and what has
//     been sent and not been answered is given up;
//   - Run returns when nothing is under way any more, and the Lease is released
//     only if no write is in doubt (leaderLock);
//   - what got past the write gate in time and reaches the API server late is refused
//     there, because the next leader has touched the Service (takeover).
type writeGate struct {
	// lasts is for how long after a renewal was sent the Lease is surely
	// ours; 0 is for ever.
	lasts time.Duration

	mu sync.Mutex
	// renewed is when the last renewal that succeeded was sent.
	renewed time.Time
	closed  bool
	// expiry gives up what is under way when the Lease is not renewed in time.
	expiry *time.Timer
	// underway are the writes that have not been answered, and how to give
	// them up.
	underway map[*http.Request]context.CancelCauseFunc
	// ended is closed, and forgotten, when nothing is under way any more.
	ended chan struct{}
	// doubtful are the Services that have a write without an answer.
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

// renew notes that the Lease was renewed by a request that was sent then: from
// its arrival, which was not before, others count the time until they take over.
func (f *writeGate) renew(sent time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.renewed = sent
	f.expiry.Reset(f.lasts - time.Since(sent))
}

// expire gives up what is under way, if the Lease was not renewed meanwhile.
func (f *writeGate) expire() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.shut(); err != nil {
		f.giveUp(err)
	}
}

// close lets nothing through any more, and gives up what is under way.
func (f *writeGate) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.expiry.Stop()
	f.giveUp(errNotLeading)
}

// wait returns when nothing is under way.
func (f *writeGate) wait() {
	f.mu.Lock()
	ended := f.ended
	f.mu.Unlock()
	if ended != nil {
		<-ended
	}
}

// doubts is how many Services have a write without an answer: the API server may
// have done it, or may still do it.
func (f *writeGate) doubts() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.doubtful)
}

// shut says why nothing may be sent now, or nil. Both clocks must agree that it
// may: one of them stands still while a machine sleeps, the other may be set.
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

// wrap has what is sent through next pass the write gate, but for what only reads.
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

// send sends a write, and gives it up when the time of the leader is over.
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

// enter lets a write through, or says why not.
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

// leave notes what has become of a write.
//
// Each write holds for one version of its object. So when a write is answered
// with success or a conflict, that version is past, and what was sent earlier
// can only fail; when the object is gone too. Without such an answer it may
// still be done, however late. A write that admission has stopped is not done.
//
// Only Services are in doubt: a late write of another object's status gives no
// address to anybody, and the reporter puts it right.
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

// settled notes that the Service of this name is gone, has another type, or is
// another Service. Its version is past, so what was sent earlier can only fail.
func (f *writeGate) settled(name types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	path := "/api/v1/namespaces/" + name.Namespace + "/services/" + name.Name
	// The API server may be behind a proxy that adds a prefix.
	maps.DeleteFunc(f.doubtful, func(object string, _ bool) bool { return strings.HasSuffix(object, path) })
}

// mostFault is how much is read of an answer that tells of a fault.
const mostFault = 64 << 10

// stopped reports whether resp is a fault of an admission webhook, which the API
// server asks before it writes anything. Otherwise a Service whose webhook is
// broken would be in doubt for ever. The body can be read again afterwards.
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

// again is a body of which a part is read again.
type again struct {
	io.Reader
	io.Closer
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
