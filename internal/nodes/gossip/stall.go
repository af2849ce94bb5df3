package gossip

import "time"

// stallGuard knows whether this process ran without a long pause. It is not safe for
// concurrent use.
//
// While a process stands still, the kernel keeps the packets that it receives. When the
// process runs again, it cannot know how old a waiting message is, and another node may
// long have done what the message asks for. So the caller drops messages until all waiting
// ones are read. Senders expect that some messages stay unanswered.
type stallGuard struct {
	// last is the time of the last call of running. resumed is the time of the first call
	// after the last stall.
	last, resumed time.Time
}

const (
	// stallMin is the shortest pause between two calls of running that is a stall. A
	// process on a busy machine has shorter pauses.
	stallMin = 500 * time.Millisecond
	// stallDrain is how long a process may need to read the waiting packets.
	stallDrain = time.Second
)

// running records that the process runs at now.
func (g *stallGuard) running(now time.Time) {
	if !g.last.IsZero() && now.Sub(g.last) > stallMin {
		g.resumed = now
	}
	g.last = now
}

// fresh reports whether a message received at now has not waited for long. Receiving the
// message also proves that the process runs, perhaps for the first time after a stall.
func (g *stallGuard) fresh(now time.Time) bool {
	g.running(now)
	return g.resumed.IsZero() || now.Sub(g.resumed) >= stallDrain
}

// running tells the stall guard that this process runs.
func (g *Gossip) running(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stalls.running(now)
}

// fresh reports whether a message that this process receives at now has not waited for
// long.
func (g *Gossip) fresh(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.stalls.fresh(now)
}
