package gossip

import (
	"sync"
	"time"
)

// vigil knows whether this process has run all the while. Every look at what has
// come is a sign that it does.
//
// While it stands still the kernel goes on to take what others send, and nothing
// tells how old a message is that was waiting there: what it asks for may have been
// done by somebody else. So none is taken until all that was waiting has been read.
// That nobody answers is something that senders count with.
type vigil struct {
	mu sync.Mutex
	// seen is when the last sign was, and woke when the last one after a
	// standstill.
	seen, woke time.Time
}

const (
	// standstill is the longest time from one sign to the next in a process
	// that runs, if not very well.
	standstill = 500 * time.Millisecond
	// waking is how long it may take to read what was waiting.
	waking = time.Second
)

// sign notes that the process runs at now.
func (v *vigil) sign(now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.seen.IsZero() && now.Sub(v.seen) > standstill {
		v.woke = now
	}
	v.seen = now
}

// awake says whether what comes at now has not been waiting for long. That it comes
// is a sign itself, and may be the first.
func (v *vigil) awake(now time.Time) bool {
	v.sign(now)
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.woke.IsZero() || now.Sub(v.woke) >= waking
}
