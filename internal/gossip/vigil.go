package gossip

import (
	"sync"
	"time"
)

// vigil knows whether this process has run all the while. Every packet that comes
// or goes is a sign that it does, and there are many in a second, unless it is
// alone: then it has nobody to ask.
//
// While it stands still the kernel goes on to take what others send, and nothing
// tells how old a message is that was waiting there: what it asks for may have been
// done by somebody else. So none is taken until all that was waiting has been read.
// That nobody answers is something that senders count with.
type vigil struct {
	mu sync.Mutex
	// members is how many the library takes for alive, this one included.
	members int
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

// company notes that members have come or gone. That there were no signs before
// the first of them came is no standstill.
func (v *vigil) company(change int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.members += change
	if change > 0 && v.members == 2 {
		v.seen = time.Time{}
	}
}

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
