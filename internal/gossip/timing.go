package gossip

import (
	"context"
	"io"
	"log"
	"log/slog"
	"time"

	"github.com/hashicorp/memberlist"
)

// Timing is how fast things go. What is zero has its default.
//
// A process sends a heartbeat to three others at each Beat. One that misses three in a
// row suspects the process and tells all. They believe it after Silence, unless the
// suspected process refutes it or another vouches for it. With the defaults that takes
// under 0.5 s, however large the cluster.
//
// A process that lives but does not run is not suspected for 128 ms, which is more than
// the 100 ms for which the kernel stops a container that has used up its share of the CPU. Then it has
// Silence to wake up and refute.
type Timing struct {
	// Beat is the time from one heartbeat to the next, 64 ms, and from one look at
	// what has come to the next. An idle agent spends most of its CPU on waking
	// up for these, so nothing else wakes it: neither a packet that comes, nor
	// an answer that is waited for.
	Beat time.Duration
	// Silence is how long a suspicion waits for a refutation, 150 ms, and for as
	// much longer as the patience is longer than DefaultPatience. The suspected
	// process may need one Beat to read of it, and the others another to read the
	// refutation.
	Silence time.Duration
	// Probe is the time from one probe of the library to the next, 1 s. Probes
	// find the dead that have no watcher left.
	Probe time.Duration
	// Answer is how long an answer to a probe may take before others are asked
	// for help, half of Probe.
	Answer time.Duration
	// Spread is the time from one round of broadcasts to the next while there are
	// some, 20 ms.
	Spread time.Duration
	// Sync is the time from one comparison of all that is known with one
	// other member to the next, 30 s; in large clusters longer.
	Sync time.Duration
	// Stream limits one exchange over TCP, 2 s.
	Stream time.Duration
	// Rejoin is the time from one attempt to reach missing members to the next,
	// 1 s.
	Rejoin time.Duration
	// Memory is how long members that died or left are remembered, 1 h.
	Memory time.Duration
}

func (t Timing) withDefaults() Timing {
	def := func(d *time.Duration, value time.Duration) {
		if *d <= 0 {
			*d = value
		}
	}
	def(&t.Beat, 64*time.Millisecond)
	def(&t.Silence, 150*time.Millisecond)
	def(&t.Probe, time.Second)
	def(&t.Answer, t.Probe/2)
	def(&t.Spread, 20*time.Millisecond)
	def(&t.Sync, 30*time.Second)
	def(&t.Stream, 2*time.Second)
	def(&t.Rejoin, time.Second)
	def(&t.Memory, time.Hour)
	return t
}

const (
	// datagram is what fits into one UDP packet on any IPv6 link: its least
	// MTU without the headers of IPv6 and UDP.
	datagram = 1280 - 40 - 8
	// helpers are asked to probe a member that does not answer this process.
	helpers = 3
	// suspicion is for how many Probes, times the decimal logarithm of the
	// number of nodes, the library waits before it believes that a member is
	// dead. As that grows with the cluster it is as short as can be, and this
	// package waits for the rest.
	suspicion = 1
	// listeners are sent broadcasts at each Spread.
	listeners = 4
	// retransmits is how often, times the decimal digits of the number of
	// nodes, each member passes a broadcast on. With half of it, in a cluster of
	// four, one in 50 nodes does not learn in time of what it must refute.
	retransmits = 8
)

// config is what the library is told.
func (g *Gossip) config(transport memberlist.Transport) *memberlist.Config {
	t := g.opt.Timing
	c := memberlist.DefaultLANConfig()
	c.Name = g.self.String()
	c.Transport = transport
	c.BindPort, c.AdvertisePort = int(g.opt.Bind.Port()), int(g.opt.Bind.Port())
	c.TCPTimeout = t.Stream
	c.RetransmitMult = retransmits
	c.IndirectChecks = helpers
	c.SuspicionMult = suspicion
	// Confirmations of others do not shorten a suspicion: they cannot tell a dead
	// node from one that stands still for a moment either.
	c.SuspicionMaxTimeoutMult = 1
	c.ProbeInterval, c.ProbeTimeout = t.Probe, t.Answer
	// A process too busy to read answers waits longer for them, but not so long
	// that it finds the next death late.
	c.AwarenessMaxMultiplier = 3
	c.GossipInterval = 0 // see pendingBroadcasts
	c.PushPullInterval = t.Sync
	// Compressing what is this short costs more than it saves.
	c.EnableCompression = false
	c.UDPBufferSize = datagram - packetOverhead
	c.HandoffQueueDepth = 4096
	c.Logger = g.logger()
	c.Delegate, c.Events, c.Alive = (*delegate)(g), (*delegate)(g), (*delegate)(g)
	return c
}

// logger passes on what the library logs, at the level of details: this package logs
// what matters of it.
func (g *Gossip) logger() *log.Logger {
	if !g.opt.Log.Enabled(context.Background(), slog.LevelDebug) {
		return log.New(io.Discard, "", 0)
	}
	return log.New(logWriter{g.opt.Log}, "", 0)
}

// logWriter passes lines on to a log.
type logWriter struct{ log *slog.Logger }

func (w logWriter) Write(line []byte) (int, error) {
	w.log.Debug("gossip library", "line", string(line))
	return len(line), nil
}
