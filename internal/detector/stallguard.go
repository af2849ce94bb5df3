package detector

import "time"

// StallGuard knows whether this process has run without a longer pause. It is not safe
// for concurrent use.
//
// While a process stands still, the kernel keeps what others send to it. When the process
// runs again, nothing tells how old a waiting message is, and another node may have done
// long ago what it asks for. So the caller takes no message until all that was waiting
// has been read. The senders expect that some messages stay unanswered.
type StallGuard struct {
	// last is when the last sign of running was, and resumed when the last one
	// after a stall was.
	last, resumed time.Time
}

const (
	// stallMin is the shortest pause between two signs that is a stall. A process
	// that runs badly has shorter ones.
	stallMin = 500 * time.Millisecond
	// stallDrain is how long reading what was waiting may take.
	stallDrain = time.Second
)

// Running notes that the process runs at now.
func (g *StallGuard) Running(now time.Time) {
	if !g.last.IsZero() && now.Sub(g.last) > stallMin {
		g.resumed = now
	}
	g.last = now
}

// Fresh reports whether a message that is received at now has not waited for long.
// Receiving it is a sign of running too, perhaps the first after a stall.
func (g *StallGuard) Fresh(now time.Time) bool {
	g.Running(now)
	return g.resumed.IsZero() || now.Sub(g.resumed) >= stallDrain
}
