// Package gossip tells the node agents of a cluster of each other: which agents live,
// what each says of its node, and the messages that one sends to another. It works
// without the API server, and notices in a fraction of a second that an agent is gone.
//
// Membership is the library's (memberlist), suspicions are package detector's. This
// package joins both in one table, and carries their packets, sealed or signed with the
// keys. It decides nothing: what the silence of one agent, or of most, means for an
// address is package election's. It knows nothing of Services or Leases, and does not
// look into the messages.
//
// Every process is a member of its own, named by its node and its instance. So an agent
// that restarts need not refute what was said of the process before it. Of two agents of
// one node neither makes the other flap: the node is alive while one of them is, and says
// what the newer one says.
//
// To read: run.go starts the parts. detect.go runs the detector, events.go hears from the
// library, table.go and suspicion.go join both, join.go finds lost members. On the wire
// are record.go, heartbeat.go and message.go, sealed by seal.go and stream.go, carried by
// transport.go and network.go. version.go says which versions of them there are.
package gossip

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"purelb.io/purelb/internal/detector"
)

// Options are what the gossip of a node agent needs.
type Options struct {
	// Node is the name of this node.
	Node string
	// Bind is the address of this node that the others reach, and the port,
	// for UDP and TCP.
	Bind netip.AddrPort
	// Keys are AES keys of 16, 24 or 32 bytes, one at least. The first
	// encrypts, all decrypt.
	Keys [][]byte
	// Seeds, if set, says where others may be. It is asked at the start, and
	// again, ever more rarely, while fewer are seen than it named, or none.
	Seeds func(context.Context) ([]netip.AddrPort, error)
	// Timing is how fast things go. The zero value is right.
	Timing Timing
	// Patience is after how long a silent process counts as dead, DefaultPatience
	// to MaxPatience; 0 is DefaultPatience.
	Patience time.Duration
	// Receive, if set, gets the messages that others Send, just now: those that
	// this process has slept through are dropped. It may be called by several
	// goroutines at once and must not block long.
	Receive func(from string, message []byte)
	Log     *slog.Logger

	carrier  carrier // takes the place of the network
	versions span    // takes the place of what this build understands
}

// Validate tells what is wrong with the options.
func (o Options) Validate() error {
	switch {
	case o.Node == "" || strings.ContainsAny(o.Node, "#/"):
		return fmt.Errorf("%q is not the name of a node", o.Node)
	case !o.Bind.Addr().IsValid() || o.Bind.Addr().IsUnspecified():
		return errors.New("gossip needs the address of this node, which the others reach")
	case o.Bind.Port() == 0:
		return errors.New("gossip needs a port that the others know")
	case o.Log == nil:
		return errors.New("gossip needs a log")
	}
	return ValidPatience(o.Patience)
}

// Gossip is the gossip of one node agent. It is safe for concurrent use.
type Gossip struct {
	opt       Options
	self      identity
	versions  span
	keys      *keyring
	counts    counters
	strangers *strangers
	pending   pendingBroadcasts
	// changed tells the reader of Members that there is something new, published
	// tells Run that there is something to spread, and suspected that a process is
	// said to be dead. Shifted tells the joiner that a member may be missing.
	changed, published, suspected, shifted chan struct{}
	sent                                   atomic.Uint64 // the number of the last message

	// talk is held while list is used, so that it is not shut down meanwhile.
	talk sync.RWMutex
	list *memberlist.Memberlist // nil while Run does not run
	// library is what the library was told. See slowLibrary.
	library *memberlist.Config

	// The library calls us with its own lock held, so nothing of it may be
	// called with mu held.
	mu      sync.Mutex
	meta    []byte
	table   table
	windows map[string]*detector.Window // of the messages of each sender
	stalls  detector.StallGuard
}

// New returns the gossip of opt. Nothing happens before Run.
func New(opt Options) (*Gossip, error) {
	if err := opt.Validate(); err != nil {
		return nil, err
	}
	opt.Bind = netip.AddrPortFrom(opt.Bind.Addr().Unmap(), opt.Bind.Port())
	opt.Timing = opt.Timing.withDefaults()
	opt.Patience = max(opt.Patience, DefaultPatience)
	g := &Gossip{
		opt:       opt,
		self:      identity{node: opt.Node, instance: newInstance()},
		changed:   make(chan struct{}, 1),
		shifted:   make(chan struct{}, 1),
		published: make(chan struct{}, 1),
		suspected: make(chan struct{}, 1),
		pending:   newPendingBroadcasts(),
		versions:  cmp.Or(opt.versions, supported),
		strangers: newStrangers(opt.Log),
		table:     newTable(),
		windows:   map[string]*detector.Window{},
	}
	g.meta = Record{}.encode(g.versions, g.opt.Patience)
	g.keys = newKeyring(&g.counts, g.strangers)
	return g, g.SetKeys(opt.Keys)
}

// newInstance returns the number of this process. Of two agents of one node the
// newer has the higher one: both have their clock from the same machine. Should
// that clock have been set back, the older one speaks for the node until it ends.
func newInstance() uint64 {
	const random = 20
	return uint64(time.Now().UnixMilli())<<random | rand.Uint64N(1<<random)
}

// SetKeys changes the keys, also while running. To rotate, first give every
// agent the new key as the second, then as the first, then take the old one
// away.
func (g *Gossip) SetKeys(keys [][]byte) error { return g.keys.set(keys) }

// Publish says what the others are told of this node from now on, until Leave.
func (g *Gossip) Publish(r Record) {
	if g.replace(r.encode(g.versions, g.opt.Patience)) {
		poke(g.published)
	}
}

// replace changes what the others are told, and reports whether it did.
func (g *Gossip) replace(meta []byte) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.meta[flagsAt]&flagLeaving != 0 || string(g.meta) == string(meta) {
		return false
	}
	g.meta = meta
	return true
}

// Members returns what is known of all nodes, this one included, sorted by
// node. The answer is shared: it must not be changed.
func (g *Gossip) Members() []Member {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.table.members()
}

// Accused returns how often peers suspected this process and it refuted. A process that
// is suspected again and again may hear the others while they do not hear it.
func (g *Gossip) Accused() uint64 { return g.counts.accused.Load() }

// Changed delivers when Members or Accused has changed.
func (g *Gossip) Changed() <-chan struct{} { return g.changed }

// poke leaves a signal in c unless one is waiting there already.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
