// Package membership tells the agent which nodes are alive and what each announces about
// itself. It has two sources. Gossip detects changes within a moment. Leases provide what
// gossip cannot know. Package election merges both. Membership also carries messages
// between two agents.
//
// It knows nothing of Services or addresses, and decides nothing about them.
//
// The state that Membership keeps between two reads of its sources, and why it may:
//
//	record  the record that the agent published last; gossip that starts later needs it
//	peers   the merged result, so that a reader gets one consistent moment
//	mode    when gossip began, and when it was last unclear which nodes are cut off:
//	        the way to keep Leases depends on how long ago that was
//
// mu guards this state. Run starts three goroutines. The first keeps the Leases (package
// lease). The second keeps the merged result up to date. The third reads the keys from the
// Secret, and starts gossip with them. Publish and the second goroutine both merge, each
// with mu held.
package membership

import (
	"context"
	"log/slog"
	"net/netip"
	"reflect"
	"sync"
	"time"

	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/nodes/gossip"
	"purelb.io/purelb/internal/nodes/lease"
	"purelb.io/purelb/internal/process"
)

// Gossiping configures the gossip of the agents.
type Gossiping struct {
	// Bind is the address and the port of this node at which the others reach it, unless a record
	// names another address. The zero value turns gossip off: then the Leases alone decide which nodes
	// are alive.
	Bind netip.AddrPort
	// Secret is the name of the Secret with the keys, in the install
	// namespace.
	Secret string
	// Patience is how long a node is not heard before it counts as dead. 0 means
	// gossip.DefaultPatience.
	Patience time.Duration
	// Memory is the file in which the agent keeps its keys for a restart while the API server is
	// away. If it is empty, the agent keeps nothing.
	Memory string
}

// Validate reports what is wrong with g.
func (g Gossiping) Validate() error { return gossip.ValidPatience(g.Patience) }

// Options configure the membership of a node agent.
type Options struct {
	Gossiping
	// Lease configures this node's Lease, and names the node. New fills in Log and Changed.
	Lease lease.Options
	// Secrets reads the Secrets of the install namespace.
	Secrets typedcorev1.SecretInterface
	Log     *slog.Logger
	// Ready, if set, is closed when the API server answers for the first time. Membership
	// sends it no request before that.
	Ready <-chan struct{}

	// timing is the timing of gossip. joining is how long gossip may take to find the
	// others. early is how long to wait for the API server. The zero values are right.
	timing         gossip.Timing
	joining, early time.Duration
}

// Membership is the state of all nodes as this node knows it. It is safe for concurrent
// use.
type Membership struct {
	Options
	leases *lease.Leases

	// changed tells the reader of Peers that Peers changed. wake tells follow to merge the
	// sources again.
	changed, wake chan struct{}
	inbox         chan Message
	published     chan struct{} // closed when there is a record
	recollect     chan struct{} // closed when gossip has to start from the remembered keys
	moved         chan struct{} // signals that gossip has to move to another address

	mu     sync.Mutex
	gossip *gossip.Gossip // nil while gossip does not run
	record *lease.Record  // the published record; nil before the first Publish
	left   bool
	mode   leaseMode
	peers  election.Peers
}

// New returns the membership of opt. It starts nothing: Run does.
func New(opt Options) *Membership {
	wake := make(chan struct{}, 1)
	opt.Lease.Log, opt.Lease.Changed = opt.Log, wake
	if opt.joining == 0 {
		opt.joining = joining
	}
	if opt.early == 0 {
		opt.early = early
	}
	m := &Membership{
		Options: opt, leases: lease.New(opt.Lease),
		changed: make(chan struct{}, 1), wake: wake, inbox: make(chan Message, inboxSize),
		published: make(chan struct{}), recollect: make(chan struct{}), moved: make(chan struct{}, 1), mode: leaseMode{limit: opt.joining, alone: !opt.Bind.IsValid()},
	}
	if !m.mode.alone {
		m.leases.SetMode(lease.Mode{}) // until it is clear whether gossip works
	}
	return m
}

// Run reads both sources until ctx is done.
func (m *Membership) Run(ctx context.Context) error {
	parts := []func(context.Context) error{m.keepLeases, m.follow}
	if m.Bind.IsValid() {
		parts = append(parts, m.talk)
	}
	return process.Together(ctx, parts...)
}

// keepLeases keeps and reads Leases from the moment when the API server answers. If it
// noticed that moment late, the others would take this node for dead.
func (m *Membership) keepLeases(ctx context.Context) error {
	if !m.ready(ctx) {
		return nil
	}
	m.expectGossip(time.Now()) // without remembered keys, gossip has no keys before
	return m.leases.Run(ctx)
}

// follow updates Peers when a source changes or when time changes the result.
func (m *Membership) follow(ctx context.Context) error {
	for ctx.Err() == nil {
		backoff.Wait(ctx, time.Until(m.update()), m.wake)
	}
	return nil
}

// update merges the sources into Peers. It returns when time alone may change the result.
func (m *Membership) update() (next time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	view := m.leases.View()
	return m.merge(m.evidence(view), view.Listed, time.Now())
}

// evidence returns what gossip and the Leases say about the other nodes. The caller holds
// mu.
func (m *Membership) evidence(view lease.View) election.Evidence {
	e := election.Evidence{
		Self: m.Lease.Node, Leases: view.Leases, LeasesTrusted: view.Trusted, Contact: view.Contact, Settled: view.Settled,
	}
	if m.gossip == nil {
		return e
	}
	for _, g := range m.gossip.Members() {
		e.Gossip = append(e.Gossip, g.Gossiped)
	}
	return e
}

// merge sets Peers and the way to keep Leases from e. It returns when time alone may change
// them. The caller holds mu.
func (m *Membership) merge(e election.Evidence, listed bool, now time.Time) (next time.Time) {
	p := election.Merge(e, now)
	if m.gossip != nil {
		m.mode.accused(m.gossip.Accused(), now)
	}
	m.leases.SetMode(m.mode.decide(e, p, listed, now))
	if !reflect.DeepEqual(p, m.peers) {
		m.peers = p
		backoff.Poke(m.changed)
	}
	next = m.mode.next(now)
	if back := e.NextReturn(now); !back.IsZero() && back.Before(next) {
		next = back
	}
	return next
}

// Publish sets the record that this node announces.
func (m *Membership) Publish(r lease.Record) {
	if m.publish(r) {
		m.update() // our own record changes the merged result
	}
}

// publish stores and announces r, and reports whether r differs from the record before.
func (m *Membership) publish(r lease.Record) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !r.Gossip.IsValid() || !m.Bind.IsValid() {
		r.Gossip = m.Bind
	}
	if m.left || m.record != nil && m.record.Equal(r) {
		return false
	}
	if m.gossip != nil && m.gossip.Address() != r.Gossip {
		backoff.Poke(m.moved)
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

// gossiped returns the part of r that gossip carries.
func gossiped(r lease.Record) election.Record {
	return election.Record{Subnets: r.Subnets, Own: r.Addresses, Draining: r.Draining != "", Digest: r.Digest()}
}

// Peers returns the merged state of all nodes.
func (m *Membership) Peers() election.Peers {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.peers
}

// Inherited returns the claims of other machines that the agent before this one heard: see lease.Inherited.
func (m *Membership) Inherited() (claims []lease.Heard, known bool) { return m.leases.Inherited() }

// Changed signals that Peers changed.
func (m *Membership) Changed() <-chan struct{} { return m.changed }
