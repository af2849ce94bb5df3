// Package lease publishes this node's Lease, purelb-node-<node>, and reads those
// of the other nodes: who is there, with which subnets.
//
// It knows the Lease as an object, and when this node saw each one change. It
// never compares the clocks of two machines (see election.Liveness). It knows
// nothing of Services or of interfaces, and decides nothing: who announces what
// is package election's.
//
// There are two ways to keep Leases, see Keeping. Where something else tells who
// lives they are renewed slowly and listed now and then; otherwise they are
// renewed fast and watched.
//
// A node agent that stops, whether it restarts, is rolled out anew or crashes,
// leaves its Lease and its addresses in place: the next agent on the node
// adopts both, and no connection is cut. If none comes, the Lease expires for
// the others, and the local addresses for the kernel. Only an agent that leaves
// for good takes its Lease away, with Delete.
package lease

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// Keeping is how Leases are kept. New keeps them watched and fast.
type Keeping struct {
	// Watch has the Leases of the others watched. Without it they are listed
	// every few minutes.
	Watch bool
	// Fast has our own renewed for those who watch.
	Fast bool
	// Lost are nodes whose silence was noticed in another way, and when. If
	// they live they keep their Lease fast from then on, and one that is not
	// renewed soon is of nobody. Without a watch they are looked at more often.
	Lost map[string]time.Time
	// Unnoticed is election.Loss.Unnoticed of the lost ones. If they live, they keep
	// their Leases fast only when a list has told them that we keep ours fast.
	Unnoticed bool
	// Told are the Digests of what the Leases of some nodes say by now. Where a Lease
	// that is not watched was seen to say something else, it is read.
	Told map[string]uint64
	// Unproven are nodes of which nothing but an old Lease tells. One that is not
	// renewed for as long as it says is of nobody.
	Unproven []string
}

// Leases are the Leases of all nodes, as this node sees them.
type Leases struct {
	opt Options
	// changed tells the reader of View that there is something new, renew
	// tells the publisher not to wait for the next renewal, look tells the
	// reader of Leases that it should read them in another way, or now.
	changed, renew, look chan struct{}
	// listed is closed when the Leases were listed for the first time.
	listed chan struct{}

	// writing is held by who writes our Lease.
	writing chan struct{}
	// object is our Lease as the API server last had it, and left says that we have
	// taken it away for good. They belong to who holds writing.
	object *coordinationv1.Lease
	left   bool

	mu        sync.Mutex
	record    *Record // what we publish; nil until we are told
	inherited inheritance
	keeping   Keeping
	table     *table
}

// New returns the Leases of opt, which must be valid. Nothing happens before Run.
func New(opt Options) *Leases {
	return &Leases{
		opt:     opt,
		changed: make(chan struct{}, 1),
		renew:   make(chan struct{}, 1),
		look:    make(chan struct{}, 1),
		listed:  make(chan struct{}),
		writing: make(chan struct{}, 1),
		keeping: Keeping{Watch: true, Fast: true},
		table:   newTable(opt),
	}
}

// Run renews and reads Leases until ctx is done.
func (l *Leases) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { l.publish(ctx) })
	return l.follow(ctx)
}

// Publish says what the Lease of this node tells from now on. There is no Lease
// before the first call.
func (l *Leases) Publish(r Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inherited.taken {
		l.inherited.claims = nil // r has those that count still
	}
	if l.record != nil && l.record.Equal(r) {
		return
	}
	if l.record != nil && len(l.record.Subnets) == 0 && len(r.Subnets) > 0 {
		l.table.unsettle(time.Now())
		// When it is settled again is to be told whatever the API server does.
		time.AfterFunc(l.table.settle, func() { poke(l.changed) })
	}
	l.record = &r
	poke(l.renew)
}

// Keep says how Leases are kept from now on.
func (l *Leases) Keep(k Keeping) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k.Fast && !l.keeping.Fast && l.record != nil {
		poke(l.renew)
	}
	news := l.table.tell(k.Told, time.Now())
	if news || k.Watch != l.keeping.Watch || len(k.Lost) > 0 && len(l.keeping.Lost) == 0 || !slices.Equal(k.Unproven, l.keeping.Unproven) {
		poke(l.look)
	}
	l.keeping = k
	l.table.unnoticed = k.Unnoticed
	l.table.lose(k.Lost, time.Now())
	l.table.unproven = k.Unproven
}

// Prove has our Lease renewed at once, as a proof of contact.
func (l *Leases) Prove() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.record != nil {
		poke(l.renew)
	}
}

// View returns what is known of the nodes now.
func (l *Leases) View() View {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.table.view(time.Now())
}

// Seeds returns where the others gossip, once that is known.
func (l *Leases) Seeds(ctx context.Context) ([]netip.AddrPort, error) {
	select {
	case <-l.listed:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.table.seeds(), nil
}

// Changed delivers when View may have changed.
func (l *Leases) Changed() <-chan struct{} { return l.changed }

// update changes the table, and signals if that may change what is known of the
// nodes.
func (l *Leases) update(change func(*table) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if change(l.table) {
		poke(l.changed)
	}
}

// now returns how Leases are kept now.
func (l *Leases) now() Keeping {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.keeping
}

// poke leaves a signal in c unless one is waiting there already.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
