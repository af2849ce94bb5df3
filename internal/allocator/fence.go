package allocator

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

// fence stands between the leader and the API server, and lets writes through
// for as long as the Lease is surely ours. It is the first of three walls
// against a leader whose time is over and who does not know it:
//
//   - the fence: once the time is over nothing is sent any more, and what has
//     been sent and not been answered is given up;
//   - Run returns when nothing is under way any more, and the Lease is released
//     only if no write is in doubt (tenure);
//   - what got past the fence in time and reaches the API server late is refused
//     there, because the next leader has touched the Service (takeover).
type fence struct {
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
	// doubtful are the objects of which nobody knows if they were written.
	doubtful map[string]bool
}

var (
	errNotLeading = errors.New("not sent: this allocator does not lead any more")
	errNotRenewed = errors.New("not sent: the Lease was not renewed in time, and another allocator may lead soon")
)

func newFence(lasts time.Duration) *fence {
	f := &fence{
		lasts:    lasts,
		underway: map[*http.Request]context.CancelCauseFunc{},
		doubtful: map[string]bool{},
	}
	f.expiry = time.AfterFunc(lasts, f.expire)
	return f
}

// renew notes that the Lease was renewed by a request that was sent then: from
// its arrival, which was not before, others count the time until they take over.
func (f *fence) renew(sent time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.renewed = sent
	f.expiry.Reset(f.lasts - time.Since(sent))
}

// expire gives up what is under way, if the Lease was not renewed meanwhile.
func (f *fence) expire() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.shut(); err != nil {
		f.giveUp(err)
	}
}

// close lets nothing through any more, and gives up what is under way.
func (f *fence) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.expiry.Stop()
	f.giveUp(errNotLeading)
}

// wait returns when nothing is under way.
func (f *fence) wait() {
	f.mu.Lock()
	ended := f.ended
	f.mu.Unlock()
	if ended != nil {
		<-ended
	}
}

// doubts is how many objects there are of which nobody knows if they were
// written, or will be.
func (f *fence) doubts() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.doubtful)
}

// shut says why nothing may be sent now, or nil. Both clocks must agree that it
// may: one of them stands still while a machine sleeps, the other may be set.
func (f *fence) shut() error {
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

func (f *fence) giveUp(why error) {
	for _, cancel := range f.underway {
		cancel(why)
	}
}
