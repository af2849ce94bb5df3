// Package membership tells the agent which nodes live and what each says of
// itself. Two sources tell it: gossip, within a moment, and Leases, of what
// gossip cannot know. Package election merges them. Membership also carries
// messages from one agent to another.
//
// It knows nothing of Services or addresses, and decides nothing about them.
//
// What Membership holds between two looks at the sources, and why it may:
//
//	record  what the agent published last; a gossip that starts later needs it
//	peers   the merged answer, so that a reader gets all of one moment
//	mode    when gossip began, and when it was last in doubt which nodes are cut
//	        off: how Leases are to be kept depends on how long ago that was
//
// These belong to mu. Run starts three goroutines: one keeps the Leases (package
// lease), one keeps the merged answer up to date, and one gossips, with the keys
// that a fourth reads from the Secret. Publish and the goroutine of the merged
// answer both merge, each with mu held.
package membership

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"purelb.io/purelb/internal/election"
	"purelb.io/purelb/internal/gossip"
	"purelb.io/purelb/internal/lease"
	"purelb.io/purelb/internal/process"
)

// Gossiping says how agents gossip.
type Gossiping struct {
	// Bind is the address of this node that the others reach, and the port.
	// The zero value turns gossip off: Leases alone tell which nodes live.
	Bind netip.AddrPort
	// Secret is the name of the Secret with the keys, in the install
	// namespace.
	Secret string
	// Patience is after how long a silent node counts as dead; 0 is
	// gossip.DefaultPatience. All agents use the longest that any of them has.
	Patience time.Duration
	// Memory is the file in which the agent keeps its keys and where others gossip, for
	// a restart while the API server is away. Without it, it keeps nothing.
	Memory string
}

// Validate tells what is wrong with g.
func (g Gossiping) Validate() error { return gossip.ValidPatience(g.Patience) }

// Options are what the membership of a node agent needs.
type Options struct {
	Gossiping
	// Lease says how this node's Lease is kept, and names the node. Gossip and Log
	// are filled in.
	Lease lease.Options
	// Secrets is for the Secrets of the install namespace.
	Secrets typedcorev1.SecretInterface
	Log     *slog.Logger
	// Ready, if set, is closed when the API server answers for the first time. What asks
	// it begins then.
	Ready <-chan struct{}

	// timing is how fast gossip is, joining how long it may take to find the others, and
	// early how long to wait for the API server. The zero values are right.
	timing         gossip.Timing
	joining, early time.Duration
}

// Membership is what this node knows of all nodes. It is safe for concurrent use.
type Membership struct {
	Options
	leases *lease.Leases

	// changed tells the reader of Peers that there is something new, wake
	// that the sources are to be merged again.
	changed, wake           chan struct{}
	inbox                   chan Message
	published               chan struct{} // closed when there is a record
	recollect               chan struct{} // closed when to gossip with what is remembered
	sent, received, dropped atomic.Uint64

	mu     sync.Mutex
	gossip *gossip.Gossip // nil while there is none
	record *lease.Record  // what we publish; nil until we are told
	left   bool
	mode   leaseMode
	peers  election.Peers
	seeded []netip.AddrPort // where others gossiped when the agent before this one ran

	kept memory // what the file has; it belongs to the goroutine that tends gossip
}

// New returns the membership of opt. Nothing happens before Run.
func New(opt Options) *Membership {
	opt.Lease.Gossip, opt.Lease.Log = opt.Bind, opt.Log
	if opt.joining == 0 {
		opt.joining = joining
	}
	if opt.early == 0 {
		opt.early = early
	}
	m := &Membership{
		Options: opt, leases: lease.New(opt.Lease),
		changed: make(chan struct{}, 1), wake: make(chan struct{}, 1), inbox: make(chan Message, inboxSize),
		published: make(chan struct{}), recollect: make(chan struct{}), mode: leaseMode{limit: opt.joining, alone: !opt.Bind.IsValid()},
	}
	if !m.mode.alone {
		m.leases.Keep(lease.Keeping{}) // until it is known whether gossip works
	}
	return m
}

// Run gathers what is known of the others until ctx is done.
func (m *Membership) Run(ctx context.Context) error {
	parts := []func(context.Context) error{m.keepLeases, m.follow}
	if m.Bind.IsValid() {
		parts = append(parts, m.talk)
	}
	return process.Together(ctx, parts...)
}

// keepLeases keeps and reads Leases from when the API server answers. If it were late to
// notice that, the others would take this node for dead.
func (m *Membership) keepLeases(ctx context.Context) error {
	if !m.ready(ctx) {
		return nil
	}
	m.expectGossip(time.Now()) // there are no keys before, unless they are remembered
	return m.leases.Run(ctx)
}

// follow brings Peers up to date whenever something may have changed.
func (m *Membership) follow(ctx context.Context) error {
	for ctx.Err() == nil {
		timer := time.NewTimer(time.Until(m.update()))
		select {
		case <-ctx.Done():
		case <-m.leases.Changed():
		case <-m.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
	return nil
}

// update brings Peers up to date, and returns when time alone may change it.
func (m *Membership) update() (next time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	view := m.leases.View()
	return m.merge(m.evidence(view), view.Listed, time.Now())
}

// merge brings Peers and the way in which Leases are kept up to date with e, and
// returns when time alone may change them. The caller holds mu.
func (m *Membership) merge(e election.Evidence, listed bool, now time.Time) (next time.Time) {
	p := election.Merge(e, now)
	if m.gossip != nil {
		m.mode.accused(m.gossip.Accused(), now)
	}
	keeping, prove := m.mode.decide(e, p, listed, now)
	keeping.Told = m.told()
	m.leases.Keep(keeping)
	if prove {
		m.leases.Prove() // even if our Lease is kept fast already
	}
	if !samePeers(p, m.peers) {
		m.peers = p
		signal(m.changed)
	}
	next = m.mode.next(now)
	if at, ok := e.CutOffAt(); ok && at.After(now) && at.Before(next) {
		next = at
	}
	return next
}

// Publish says what the others are told of this node from now on.
func (m *Membership) Publish(r lease.Record) {
	if m.publish(r) {
		m.update() // what it says counts from now on
	}
}

// publish says whether r is news.
func (m *Membership) publish(r lease.Record) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left || m.record != nil && m.record.Equal(r) {
		return false
	}
	if m.record == nil {
		close(m.published)
	}
	m.record = &r
	m.leases.Publish(r)
	if m.gossip != nil {
		m.gossip.Publish(gossiped(r))
	}
	return true
}

// gossiped is what gossip tells of r.
func gossiped(r lease.Record) gossip.Record {
	return gossip.Record{Subnets: r.Subnets, Own: r.Addresses, Draining: r.Draining != "", Digest: r.Digest()}
}

// Peers returns what is known of all nodes.
func (m *Membership) Peers() election.Peers {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.peers
}

// Inherited returns, once, what agents of this node before this one heard of other
// machines. Whoever takes the claims has to Publish them.
func (m *Membership) Inherited() []lease.Heard { return m.leases.Inherited() }

// Changed signals that Peers returns something else.
func (m *Membership) Changed() <-chan struct{} { return m.changed }

// signal leaves a signal in c unless one is waiting there already.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
