// Package lease publishes this node's Lease, purelb-node-<node>, and reads the Leases of
// the other nodes: which nodes are alive, and which subnets they have.
//
// It knows the Lease as an object, and the times at which this node saw each Lease change.
// It never compares the clocks of two machines. It knows nothing of Services or of interfaces.
// It decides nothing: package election decides which node announces an address.
//
// There are two ways to keep Leases (see Mode). If gossip knows which nodes are alive, agents renew
// their Leases slowly, and read those of others when they have a reason to (see schedule.go).
// Otherwise they renew them fast, and list all of them about once in a second.
//
// A node agent that stops leaves its Lease and its addresses in place, whether it restarts,
// is rolled out or crashes. The next agent on the node adopts both, and no connection
// breaks. If no agent follows, the Lease expires for the other nodes, and the kernel
// removes the local addresses. Only an agent that leaves for good deletes its Lease, with
// Delete.
package lease

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/nodes/election"
)

// Options configure the Leases of a node agent. All but Renewed and Random are required.
type Options struct {
	// Client accesses the Leases of the install namespace.
	Client coordination.LeaseInterface
	// Node is the name of this node. Instance is the UID of this agent's pod.
	Node, Instance string
	// Duration is how long a fast Lease counts after its last change was seen. The agent
	// renews it three times in that time.
	Duration time.Duration
	// RenewDeadline limits one attempt to renew. RetryPeriod is the pause after a failed
	// attempt.
	RenewDeadline, RetryPeriod time.Duration
	Log                        *slog.Logger
	// Changed is the channel that signals that View may have changed. It has room for one signal.
	Changed chan struct{}
	// Renewed, if set, is called with the result of every attempt to renew.
	Renewed func(error)
	// Random returns numbers from 0 to 1, which spread the renewals of all agents. By default,
	// it is rand.Float64.
	Random func() float64
}

// Validate reports what is wrong with the durations.
func (o Options) Validate() error {
	switch {
	case o.Duration < time.Second:
		return fmt.Errorf("lease duration %s is shorter than one second", o.Duration)
	case o.RenewDeadline >= o.Duration:
		return fmt.Errorf("renew deadline %s must be shorter than the lease duration %s", o.RenewDeadline, o.Duration)
	case o.RetryPeriod <= 0 || o.RetryPeriod >= o.RenewDeadline:
		return fmt.Errorf("retry period %s must be longer than 0 and shorter than the renew deadline %s", o.RetryPeriod, o.RenewDeadline)
	}
	return nil
}

// slowDuration is how long a slow Lease counts. The agent renews it three times in that
// time too.
const slowDuration = 3 * time.Minute

// silence is the longest time between two lists of an agent that polls in which it has missed
// nothing. A peer that renews its Lease in time always has six tenths of the duration left. So no
// living peer expires before this node knows that it is cut off.
func (o Options) silence() time.Duration { return o.Duration / 2 }

// Mode is how the agent keeps and reads Leases. New starts with polled and fast Leases.
type Mode struct {
	// Poll makes the agent list the Leases all the time. Without it the agent reads them when it
	// has a reason to, and lists them now and then.
	Poll bool
	// Fast makes the agent renew its own Lease as often as agents that poll expect.
	Fast bool
	// Gossip is what gossip knows of each node. A lost node (Dead) that is alive keeps its Lease
	// fast from then on. If its Lease is not renewed soon, the node is dead. An agent that does not
	// poll reads the Lease of each lost node until that is clear. A node that Left has deleted its
	// Lease. If the Lease of an Alive node has another digest, the agent reads it.
	Gossip map[string]election.Gossiped
	// Unproven are nodes that are known only from an old Lease. If that Lease is not
	// renewed within its duration, the node is dead.
	Unproven map[string]bool
}

// lost returns whether gossip lost node, and when.
func (m Mode) lost(node string) (since time.Time, lost bool) {
	g := m.Gossip[node]
	return g.Since, g.State == election.Dead
}

// hears returns whether gossip hears node, and the digest of its Lease.
func (m Mode) hears(node string) (digest uint64, hears bool) {
	g, known := m.Gossip[node]
	return g.Digest, known && g.State == election.Alive
}

// Leases are the Leases of all nodes, as this node knows them.
type Leases struct {
	opt Options
	// renew makes the publisher renew our Lease now. look makes the reader of Leases read them now or in another
	// way.
	renew, look chan struct{}
	// listed is closed when the Leases were listed for the first time.
	listed chan struct{}

	// The writer of our Lease holds writing.
	writing chan struct{}
	// object is our Lease as the API server last returned it. left means that Delete was
	// called. The holder of writing owns both.
	object *coordinationv1.Lease
	left   bool

	mu     sync.Mutex
	record *Record // the published record; nil before the first Publish
	// inherited are the claims of the agent before this one. known means that our Lease was read.
	inherited []Heard
	known     bool
	table     *table
	rival     time.Time // when another program was last seen to renew our Lease
}

// New returns the Leases of opt, which must be valid. It starts nothing: Run does.
func New(opt Options) *Leases {
	if opt.Random == nil {
		opt.Random = rand.Float64
	}
	return &Leases{
		opt:     opt,
		renew:   make(chan struct{}, 1),
		look:    make(chan struct{}, 1),
		listed:  make(chan struct{}),
		writing: make(chan struct{}, 1),
		table:   newTable(opt),
	}
}

// Run renews and reads Leases until ctx is done.
func (l *Leases) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { l.publish(ctx) })
	l.follow(ctx)
	return nil
}

// Publish sets the record that the Lease of this node announces. Before the first call the
// agent writes no Lease.
func (l *Leases) Publish(r Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.record != nil && l.record.Equal(r) {
		return
	}
	if l.record != nil && len(l.record.Subnets) == 0 && len(r.Subnets) > 0 {
		l.table.unsettle(time.Now())
		// Readers must learn when it is settled again, even without the API server.
		time.AfterFunc(l.table.settle, func() { backoff.Poke(l.opt.Changed) })
	}
	l.record = &r
	backoff.Poke(l.renew)
}

// SetMode sets how the agent keeps and reads Leases.
func (l *Leases) SetMode(m Mode) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m.Fast && !l.table.mode.Fast && l.record != nil {
		backoff.Poke(l.renew)
	}
	now := time.Now()
	before := l.table.next(now)
	l.table.change(m, now)
	if l.table.next(now) != before {
		backoff.Poke(l.look)
	}
}

// View returns the current state of the nodes.
func (l *Leases) View() View {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.table.view(time.Now())
}

// Seeds returns the gossip addresses of other nodes, after the first list or when ctx is done.
func (l *Leases) Seeds(ctx context.Context) []netip.AddrPort {
	select {
	case <-l.listed:
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.table.seeds()
}

// update applies change to the table, and signals readers.
func (l *Leases) update(change func(*table)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(l.table)
	backoff.Poke(l.opt.Changed)
}
