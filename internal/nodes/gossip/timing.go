package gossip

import (
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/hashicorp/memberlist"
)

// Timing is the set of intervals. A zero field has its default.
//
// A process sends a heartbeat to its three watchers at each Beat. A watcher that misses
// three heartbeats in a row suspects the process and tells all members. They declare the
// process dead after Refutation, unless it refutes the suspicion or another watcher reports
// that it hears the process. With the defaults that takes under 0.5 s in a cluster of any
// size.
//
// A process that is alive but does not run is not suspected for 128 ms. That is longer than
// the 100 ms for which the kernel stops a container that has used up its share of the CPU.
// Then the process has Refutation to wake up and refute.
type Timing struct {
	// Beat is the time between two heartbeats, 64 ms. It is also the time between two polls
	// of the received packets. These wake-ups cost most of an idle agent's CPU, so no
	// packet and no answer wakes the agent up.
	Beat time.Duration
	// Refutation is how long a suspicion waits for a refutation, 150 ms. A patience longer
	// than DefaultPatience adds the difference. The suspected process may need one Beat to
	// read the suspicion, and the others another Beat to read the refutation.
	Refutation time.Duration
	// Probe is the time between two probes of the library, 1 s. Probes detect dead
	// processes that have no watcher left.
	Probe time.Duration
	// Answer is how long the library waits for the answer to a probe before it asks other
	// members for help, half of Probe.
	Answer time.Duration
	// Spread is the time between two rounds of broadcasts while there are broadcasts, 20
	// ms.
	Spread time.Duration
	// Sync is the time between two exchanges of the whole state with one other member, 30
	// s. It is longer in large clusters.
	Sync time.Duration
	// Stream limits one exchange over TCP, 2 s.
	Stream time.Duration
	// Rejoin is the time between two attempts to reach missing members, 1 s.
	Rejoin time.Duration
	// Memory is how long a dead or departed member is remembered, 1 h.
	Memory time.Duration
}

func (t Timing) withDefaults() Timing {
	def := func(d *time.Duration, value time.Duration) {
		if *d <= 0 {
			*d = value
		}
	}
	def(&t.Beat, 64*time.Millisecond)
	def(&t.Refutation, 150*time.Millisecond)
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
	// datagram is the largest UDP payload that fits on any IPv6 link: its smallest MTU
	// without the headers of IPv6 and UDP.
	datagram = 1280 - 40 - 8
	// helpers is how many members probe a member that does not answer this process.
	helpers = 3
	// listeners is how many members each round of broadcasts reaches.
	listeners = 4
	// retransmits, times the number of decimal digits of the number of nodes, is how often
	// each member passes a broadcast on. With half that value in a cluster of four, one in
	// 50 nodes learns too late of a suspicion that it must refute.
	retransmits = 8
)

// config returns the configuration of the library.
func (g *Gossip) config(transport memberlist.Transport) *memberlist.Config {
	t := g.opt.Timing
	c := memberlist.DefaultLANConfig()
	c.Name = g.self.String()
	c.Transport = transport
	c.BindPort, c.AdvertisePort = int(g.opt.Bind.Port()), int(g.opt.Bind.Port())
	c.TCPTimeout = t.Stream
	c.RetransmitMult = retransmits
	c.IndirectChecks = helpers
	c.SuspicionMult = g.librarySuspicion()
	// Confirmations by other members do not shorten a suspicion: those members cannot tell
	// a dead node from a paused node either.
	c.SuspicionMaxTimeoutMult = 1
	c.ProbeInterval, c.ProbeTimeout = t.Probe, t.Answer
	// A process that is too busy to read answers waits longer for them. The limit keeps it
	// from detecting the next death late.
	c.AwarenessMaxMultiplier = 3
	c.GossipInterval = 0 // see pendingBroadcasts
	c.PushPullInterval = t.Sync
	// Compressing such short packets costs more than it saves.
	c.EnableCompression = false
	c.UDPBufferSize = datagram - packetOverhead
	c.HandoffQueueDepth = 4096
	// This package itself logs what matters.
	c.Logger = slog.NewLogLogger(g.opt.Log.Handler(), slog.LevelDebug)
	c.Delegate, c.Events, c.Alive = (*delegate)(g), (*delegate)(g), (*delegate)(g)
	return c
}

// Patience is about how long a process is not heard before this process declares it dead. An
// administrator raises it for nodes that pause, for example for a snapshot or a live
// migration. A pause that is clearly shorter than the patience then moves no address.
const (
	DefaultPatience = 400 * time.Millisecond
	MaxPatience     = 5 * time.Second
)

// A record carries the patience in one byte, in this unit. Processes of earlier versions use the longest
// patience of all.
const patienceUnit = 100 * time.Millisecond

// ValidPatience reports what is wrong with d as a patience. Zero means the default.
func ValidPatience(d time.Duration) error {
	if d != 0 && (d < DefaultPatience || d > MaxPatience || d%patienceUnit != 0) {
		return fmt.Errorf("the patience of gossip is %v; say %v to %v, in steps of %v", d, DefaultPatience, MaxPatience, patienceUnit)
	}
	return nil
}

// Patience returns how long a process is not heard before this process declares it dead.
func (g *Gossip) Patience() time.Duration { return g.opt.Patience }

// suspicionTime is how long a suspicion waits for a refutation. The missed heartbeats
// before it and this time add up to the patience.
func (g *Gossip) suspicionTime() time.Duration {
	return g.opt.Timing.Refutation + g.opt.Patience - DefaultPatience
}

// librarySuspicion is how many Probes, times the decimal logarithm of the number of nodes (at least 1), the
// library waits before it declares a member dead. That time grows with the cluster, so it is as short as
// the patience allows. This package waits for the rest.
func (g *Gossip) librarySuspicion() int {
	return 1 + int(math.Ceil((g.opt.Patience-DefaultPatience).Seconds()/g.opt.Timing.Probe.Seconds()))
}
