// Package gossip connects the node agents of a cluster. It tells each agent which other
// agents are alive and what each announces about its node, and it carries messages between
// two agents. It works without the API server, and notices in a fraction of a second that
// an agent is gone.
//
// The library (memberlist) provides the membership, and package detector the suspicions.
// This package joins both in one table, and carries their packets, sealed or signed with
// the keys. It decides nothing: package election decides what the silence of one agent, or
// of most agents, means for an address. This package knows nothing of Services or Leases,
// and does not read the contents of the messages.
//
// Every process is a member of its own. Its name consists of its node and its instance. So
// an agent that restarts does not have to refute a suspicion of the process before it. Two
// agents on one node do not make the node flap. The node is alive while one of them is
// alive, and its record is that of the newer living agent.
//
// To read: run.go starts the parts. detect.go runs the detector, events.go handles the
// callbacks of the library, table.go and suspicion.go join both, and join.go finds lost
// members. record.go, heartbeat.go and message.go define the formats on the wire. seal.go
// and stream.go encrypt, transport.go and network.go send and receive. version.go lists the
// versions of the formats.
package gossip

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"purelb.io/purelb/internal/nodes/detector"
	"purelb.io/purelb/internal/nodes/election"
)

// Options configure the gossip of a node agent.
type Options struct {
	// Node is the name of this node.
	Node string
	// Bind is the address of this node at which the other agents reach it, and the port for
	// UDP and TCP.
	Bind netip.AddrPort
	// Keys are AES keys of 16, 24 or 32 bytes. At least one is required. The first key
	// encrypts; every key decrypts.
	Keys [][]byte
	// Seeds, if set, returns addresses at which other agents may be. Gossip calls it about once in a second while
	// it sees no other member, or while an address of Seeds or of a dead member has no living member.
	Seeds func(context.Context) []netip.AddrPort
	// Timing is the set of intervals. The zero value is right.
	Timing Timing
	// Patience is how long a process is not heard before the others declare it dead, from
	// DefaultPatience to MaxPatience. 0 is DefaultPatience.
	Patience time.Duration
	// Receive, if set, is called with each message that another agent Sends. Messages that
	// waited while this process stood still are dropped. Several goroutines may call
	// Receive at once, and it must not block for long.
	Receive func(from string, message []byte)
	// Changed, if set, is the channel that signals that Members or Accused changed. It has room
	// for one signal.
	Changed chan struct{}
	Log     *slog.Logger

	carrier  carrier // replaces the network in tests
	versions span    // replaces the supported versions in tests
}

// Validate reports what is wrong with the options.
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
	counts    Health
	strangers *strangers
	pending   pendingBroadcasts
	// shifted tells the joiner that a member may be missing. published says that there is a new record to
	// spread.
	shifted   chan struct{}
	published atomic.Bool
	sent      atomic.Uint64 // the number of the last message

	// A caller of list holds talk, so that Run does not shut list down meanwhile.
	talk sync.RWMutex
	list *memberlist.Memberlist // nil while Run does not run

	// The library holds its own lock while it calls this package. So no code may call the
	// library with mu held.
	mu      sync.Mutex
	meta    []byte
	table   table
	windows detector.Windows // of the messages of each sender
	stalls  detector.StallGuard
}

// New returns the gossip of opt. It starts nothing: Run does.
func New(opt Options) (*Gossip, error) {
	if err := opt.Validate(); err != nil {
		return nil, err
	}
	opt.Bind = netip.AddrPortFrom(opt.Bind.Addr().Unmap(), opt.Bind.Port())
	opt.Timing = opt.Timing.withDefaults()
	opt.Patience = max(opt.Patience, DefaultPatience)
	g := &Gossip{
		opt:      opt,
		self:     identity{node: opt.Node, instance: newInstance()},
		shifted:  make(chan struct{}, 1),
		pending:  newPendingBroadcasts(),
		versions: cmp.Or(opt.versions, supported),
		table:    newTable(),
	}
	if g.opt.Seeds == nil {
		g.opt.Seeds = func(context.Context) []netip.AddrPort { return nil }
	}
	g.meta = encode(election.Record{}, g.versions, g.opt.Patience)
	g.strangers = &strangers{log: opt.Log, count: &g.counts.BadVersion}
	g.keys = newKeyring(&g.counts, g.strangers)
	return g, g.SetKeys(opt.Keys)
}

// newInstance returns the number of this process. A newer agent of a node has a higher
// number than an older one, because both read the clock of the same machine. If that clock
// was set back meanwhile, the older agent represents the node until it ends.
func newInstance() uint64 {
	const random = 20
	return uint64(time.Now().UnixMilli())<<random | rand.Uint64N(1<<random)
}

// SetKeys changes the keys, also while Run runs. To rotate a key, give every agent the new
// key as its second, then as its first, and then remove the old key.
func (g *Gossip) SetKeys(keys [][]byte) error { return g.keys.set(keys) }

// Publish sets the record that this node announces, without its MACs. After Leave it has no effect.
func (g *Gossip) Publish(r election.Record) {
	if g.replace(encode(r, g.versions, g.opt.Patience)) {
		g.published.Store(true)
		g.pending.note()
	}
}

// replace sets the encoded record that this node announces, and reports whether it changed.
func (g *Gossip) replace(meta []byte) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.meta[flagsAt]&flagLeaving != 0 || string(g.meta) == string(meta) {
		return false
	}
	g.meta = meta
	return true
}

// Address returns the address of this node at which the other agents reach it.
func (g *Gossip) Address() netip.AddrPort { return g.opt.Bind }

// Members returns the known state of all nodes, this one included, sorted by node.
func (g *Gossip) Members() []Member {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.table.members()
}

// Accused returns how often several peers suspected this process at about the same time.
// With a single peer, each suspicion of that peer counts. If the count grows, this process
// may hear the peers while the peers do not hear this process. The suspicion of one peer
// among several does not count, because the fault may be at that peer.
func (g *Gossip) Accused() uint64 { return g.counts.corroborated.Load() }

// identity identifies a process. The library uses it as the name of a member.
type identity struct {
	node     string
	instance uint64
}

func (i identity) String() string { return fmt.Sprintf("%s#%016x", i.node, i.instance) }

func parseIdentity(name string) (identity, error) {
	at := strings.LastIndexByte(name, '#')
	if at <= 0 || len(name)-at != 17 {
		return identity{}, fmt.Errorf("%q is not the name of a process", name)
	}
	instance, err := strconv.ParseUint(name[at+1:], 16, 64)
	if err != nil {
		return identity{}, fmt.Errorf("%q is not the name of a process", name)
	}
	return identity{name[:at], instance}, nil
}
