package detector

import "time"

// StallGuard knows whether this process ran without a long pause. It is not safe for
// concurrent use.
//
// While a process stands still, the kernel keeps the packets that it receives. When the
// process runs again, it cannot know how old a waiting message is, and another node may
// long have done what the message asks for. So the caller drops messages until all waiting
// ones are read. Senders expect that some messages stay unanswered.
type StallGuard struct {
	// last is the time of the last call of Running. resumed is the time of the first call
	// after the last stall.
	last, resumed time.Time
}

const (
	// stallMin is the shortest pause between two calls of Running that is a stall. A
	// process on a busy machine has shorter pauses.
	stallMin = 500 * time.Millisecond
	// stallDrain is how long a process may need to read the waiting packets.
	stallDrain = time.Second
)

// Running records that the process runs at now.
func (g *StallGuard) Running(now time.Time) {
	if !g.last.IsZero() && now.Sub(g.last) > stallMin {
		g.resumed = now
	}
	g.last = now
}

// Fresh reports whether a message received at now has not waited for long. Receiving the
// message also proves that the process runs, perhaps for the first time after a stall.
func (g *StallGuard) Fresh(now time.Time) bool {
	g.Running(now)
	return g.resumed.IsZero() || now.Sub(g.resumed) >= stallDrain
}
