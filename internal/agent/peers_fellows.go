package agent

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
	// The zero value turns gossip off: Leases alone tell who lives.
	Bind netip.AddrPort
	// Secret is the name of the Secret with the keys, in the install
	// namespace.
	Secret string
}

// fellows is the Peers that gossip and Leases tell of together: gossip who lives,
// in a moment, and Leases what it cannot know (see election.Merge).
type fellows struct {
	node    string
	bind    netip.AddrPort
	secret  string
	secrets typedcorev1.SecretInterface
	leases  *lease.Leases
	log     *slog.Logger
	// timing is how fast gossip is. The zero value is right.
	timing gossip.Timing

	// changed tells the reader of Peers that there is something new, wake
	// has the evidence looked at again.
	changed, wake           chan struct{}
	letters                 chan Letter
	spoken                  chan struct{} // closed when there is something to publish
	sent, received, dropped atomic.Uint64

	mu     sync.Mutex
	gossip *gossip.Gossip // nil while there is none
	record *lease.Record  // what we publish; nil until we are told
	left   bool
	keeper keeper
	peers  election.Peers
}

func newFellows(s Setup, leases *lease.Leases, secrets typedcorev1.SecretInterface) *fellows {
	f := &fellows{
		node: s.Node, bind: s.Gossip.Bind, secret: s.Gossip.Secret, secrets: secrets, leases: leases, log: s.Log,
		changed: make(chan struct{}, 1), wake: make(chan struct{}, 1), letters: make(chan Letter, letterBox),
		spoken: make(chan struct{}), keeper: keeper{limit: joining},
	}
	f.keeper.alone = !f.bind.IsValid()
	if !f.keeper.alone {
		leases.Keep(lease.Keeping{}) // until it is known how it is with gossip
	}
	return f
}

// Run gathers what is known of the others until ctx is done.
func (f *fellows) Run(ctx context.Context) error {
	f.expect(time.Now())
	parts := []func(context.Context) error{f.leases.Run, f.look}
	if f.bind.IsValid() {
		parts = append(parts, f.talk)
	}
	return process.Together(ctx, parts...)
}

// look brings Peers up to date whenever something may have changed.
func (f *fellows) look(ctx context.Context) error {
	for ctx.Err() == nil {
		timer := time.NewTimer(time.Until(f.update()))
		select {
		case <-ctx.Done():
		case <-f.leases.Changed():
		case <-f.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
	return nil
}

// update brings Peers up to date, and returns when time alone may change it.
func (f *fellows) update() (next time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, view := time.Now(), f.leases.View()
	e := f.evidence(view)
	p := election.Merge(e, now)
	loss := lastLoss(e)
	lost := loss.After(f.keeper.loss)
	if lost {
		f.keeper.loss = loss
	}
	f.leases.Keep(f.keeper.keep(e, p, view.Listed, now))
	if lost {
		f.leases.Prove() // by a renewal that is kept fast already
	}
	if !samePeers(p, f.peers) {
		f.peers = p
		signal(f.changed)
	}
	next = f.keeper.next(now)
	if at, ok := e.CutOffAt(); ok && at.After(now) && at.Before(next) {
		next = at
	}
	return next
}

// Publish says what the others are told of this node from now on.
func (f *fellows) Publish(r lease.Record) {
	if f.publish(r) {
		f.update() // what it says counts from now on
	}
}

// publish says whether r is news.
func (f *fellows) publish(r lease.Record) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left || f.record != nil && f.record.Equal(r) {
		return false
	}
	if f.record == nil {
		close(f.spoken)
	}
	f.record = &r
	f.leases.Publish(r)
	if f.gossip != nil {
		f.gossip.Publish(spoken(r))
	}
	return true
}

// spoken is what gossip tells of r.
func spoken(r lease.Record) gossip.Record {
	return gossip.Record{Subnets: r.Subnets, Own: r.Addresses, Draining: r.Draining != ""}
}

// Peers returns what is known of all nodes.
func (f *fellows) Peers() election.Peers {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.peers
}

// Changed signals that Peers returns something else.
func (f *fellows) Changed() <-chan struct{} { return f.changed }

// signal leaves a signal in c unless one is waiting there already.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
