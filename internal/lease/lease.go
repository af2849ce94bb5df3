// Package lease publishes this node's Lease, purelb-node-<node>, and watches
// those of the other nodes: who is there, with which subnets.
//
// It knows the Lease as an object, and when this node saw each one change. It
// never compares the clocks of two machines (see election.Liveness). It knows
// nothing of Services or of interfaces, and decides nothing: who announces what
// is package election's.
//
// A node agent that stops, whether it restarts, is rolled out anew or crashes,
// leaves its Lease and its addresses in place: the next agent on the node
// adopts both, and no connection is cut. If none comes, the Lease expires for
// the others, and the local addresses for the kernel. Only an agent that leaves
// for good takes its Lease away, with Delete.
package lease

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/cache"

	"purelb.io/purelb/internal/election"
)

// Options are what the Leases of a node agent need. All but Renewed are
// required.
type Options struct {
	// Client is for the Leases of the install namespace.
	Client coordination.LeaseInterface
	// Node is the name of this node, Instance the UID of this agent's pod.
	Node, Instance string
	// Duration is how long a Lease counts after it was last seen to change.
	// It is renewed three times as often.
	Duration time.Duration
	// RenewDeadline limits one attempt to renew, and RetryPeriod is the
	// pause after one that failed.
	RenewDeadline, RetryPeriod time.Duration
	Log                        *slog.Logger
	// Renewed, if set, is told the outcome of every attempt to renew.
	Renewed func(error)
}

// Validate tells what is wrong with the durations.
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

// interval is the time from one renewal to the next.
func (o Options) interval() time.Duration { return o.Duration / 3 }

// silence is how long we believe to be in contact without proof of it. A peer's
// Lease that is renewed in time has two thirds of its duration left, so nobody
// alive runs out of it before we know that we are cut off.
func (o Options) silence() time.Duration { return o.Duration / 2 }

// Leases are the Leases of all nodes, as this node sees them.
type Leases struct {
	opt Options
	// changed tells the reader of Peers that there is something new, renew
	// tells the publisher not to wait for the next renewal.
	changed, renew chan struct{}

	// object is our Lease as the API server last had it. It belongs to the
	// publisher.
	object *coordinationv1.Lease

	mu     sync.Mutex
	record *Record // what we publish; nil until we are told
	table  *table
	told   election.Peers // what changed was last signalled for
}

// New returns the Leases of opt, which must be valid. Nothing happens before Run.
func New(opt Options) *Leases {
	return &Leases{
		opt:     opt,
		changed: make(chan struct{}, 1),
		renew:   make(chan struct{}, 1),
		table:   newTable(opt),
	}
}

// Run renews and watches until ctx is done.
func (l *Leases) Run(ctx context.Context) error {
	informer, synced, err := l.informer()
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { informer.RunWithContext(ctx) })
	wg.Go(func() { l.look(ctx, synced) })
	l.publish(ctx)
	return nil
}

// Publish says what the Lease of this node tells from now on. There is no Lease
// before the first call.
func (l *Leases) Publish(r Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.record != nil && l.record.equal(r) {
		return
	}
	if l.record != nil && len(l.record.Subnets) == 0 && len(r.Subnets) > 0 {
		l.table.unsettle()
	}
	l.record = &r
	poke(l.renew)
}

// Peers returns what is known of the nodes now.
func (l *Leases) Peers() election.Peers {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.table.peers(time.Now())
}

// Changed delivers when Peers has changed.
func (l *Leases) Changed() <-chan struct{} { return l.changed }

// look notes what time alone changes: the first list is in, a member fell silent,
// contact is lost.
func (l *Leases) look(ctx context.Context, synced cache.InformerSynced) {
	if !cache.WaitForCacheSync(ctx.Done(), synced) {
		return
	}
	l.update(func(t *table) bool { t.synced = true; return true })
	tick := time.NewTicker(l.opt.Duration / 20)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			l.update(func(t *table) bool {
				if t.overdue(now) {
					poke(l.renew)
				}
				return true
			})
		}
	}
}

// update changes the table, and if that may change what is known of the nodes,
// and does, signals it.
func (l *Leases) update(change func(*table) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !change(l.table) {
		return
	}
	now := l.table.peers(time.Now())
	if !equal(now, l.told) {
		l.told = now
		poke(l.changed)
	}
}

// poke leaves a signal in c unless one is waiting there already.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
