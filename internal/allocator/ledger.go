package allocator

import (
	"errors"
	"net/netip"
	"slices"
	"sync"

	"purelb.io/purelb/internal/pool"
	"purelb.io/purelb/internal/selection"
	"purelb.io/purelb/internal/service"
)

// ledger is where it is decided who gets what: one decision at a time, while
// the writes that follow from them go on beside each other.
//
// What a decision gives is held in the book at once, so that a Service's status
// may lag behind the book, but never the other way round. It is let go only when
// the API server has confirmed that the Service shows it no more. So a write that
// fails, or of which nobody knows if it did, changes nothing: what was chosen
// stays held, and the next decision for the same Service chooses it again.
type ledger struct {
	// wake has Services looked at again. It is called with the ledger locked,
	// and must not call back.
	wake func(...pool.Owner)

	// opened is closed once the book is complete.
	opened chan struct{}

	mu      sync.Mutex
	cluster selection.Cluster
	waiting map[pool.Owner]*waiter
	// claims are the Services that show an address beside its holder: by
	// sharing it, or by a fault of an earlier allocator. When the holder lets
	// it go the first of them holds it.
	claims map[netip.Addr][]pool.Owner
}

func newLedger(wake func(...pool.Owner)) *ledger {
	return &ledger{
		wake:    wake,
		opened:  make(chan struct{}),
		cluster: selection.Cluster{Book: pool.NewBook(), Sharing: map[pool.Owner]string{}},
		waiting: map[pool.Owner]*waiter{},
		claims:  map[netip.Addr][]pool.Owner{},
	}
}

// open starts the ledger with all Services that there are. Those with addresses
// keep them; the others get theirs in the order in which they were created. The
// surroundings must be known.
func (l *ledger) open(requests []service.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.SortFunc(requests, byAge)
	for _, r := range requests {
		l.adopt(r)
		if r.Foreign == "" && len(r.Held) == 0 {
			l.waiting[owner(r)] = &waiter{request: r}
		}
	}
	close(l.opened)
	l.serve()
}

// isOpen reports whether open was called.
func (l *ledger) isOpen() bool {
	select {
	case <-l.opened:
		return true
	default:
		return false
	}
}

// change notes new surroundings, and gives what they make possible to those who
// wait for it.
func (l *ledger) change(s surroundings) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cluster.Config, l.cluster.Subnets = s.config, s.subnets
	l.cluster.Book.SetBlocked(s.blocked)
	l.serve()
}

// decide chooses for the Service of r, which is ours, and holds what it chose.
// It reports whether a refusal is one that was not known yet.
func (l *ledger) decide(r service.Request) (choice selection.Choice, news bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.cluster.Book.Held(owner(r))) == 0 {
		l.adopt(r)
	}
	choice = l.cluster.Choose(r)
	l.hold(r, choice)
	return choice, l.wait(r, choice)
}

// note writes down the addresses of a Service that is not ours. They are not
// given to others: two load balancers may have pools in common.
func (l *ledger) note(r service.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiting, owner(r))
	l.adopt(r)
	l.keepOnly(owner(r), r.Held)
}

// adopt notes that the Service of r has what its status shows.
func (l *ledger) adopt(r service.Request) {
	for _, a := range r.Held {
		var held *pool.HeldError
		if err := l.cluster.Book.Adopt(a, owner(r)); errors.As(err, &held) && !slices.Contains(l.claims[a], owner(r)) {
			l.claims[a] = append(l.claims[a], owner(r))
		}
	}
	l.share(r)
}

// hold notes that the Service of r has what was chosen for it. What somebody
// else holds is in claims already.
func (l *ledger) hold(r service.Request, choice selection.Choice) {
	for _, a := range choice.Result.Addresses {
		_ = l.cluster.Book.Adopt(a, owner(r))
	}
	l.share(r)
}

// share keeps the sharing key of the Service of r in mind.
func (l *ledger) share(r service.Request) {
	if r.SharingKey == "" {
		delete(l.cluster.Sharing, owner(r))
		return
	}
	l.cluster.Sharing[owner(r)] = r.SharingKey
}

// settle notes that a Service shows these addresses, so that what else was held
// for it is free, but for what it was served since that was decided.
func (l *ledger) settle(who pool.Owner, addresses []netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.waiting[who]; w != nil {
		addresses = slices.Concat(addresses, w.last.Result.Addresses)
	}
	l.keepOnly(who, addresses)
}

// forget notes that a Service is not there any more, or not of type
// LoadBalancer.
func (l *ledger) forget(who pool.Owner) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiting, who)
	delete(l.cluster.Sharing, who)
	l.keepOnly(who, nil)
}

// keepOnly frees what is held for who beside addresses.
func (l *ledger) keepOnly(who pool.Owner, addresses []netip.Addr) {
	l.unclaim(who, addresses)
	var freed bool
	for _, a := range l.cluster.Book.Held(who) {
		if !slices.Contains(addresses, a) {
			l.free(a, who)
			freed = true
		}
	}
	if freed {
		l.serve()
	}
}

// free takes a from who, and gives it to the next who shows it, if any.
func (l *ledger) free(a netip.Addr, who pool.Owner) {
	l.cluster.Book.Release(a, who)
	heirs := l.claims[a]
	if len(heirs) == 0 {
		return
	}
	l.setClaims(a, heirs[1:])
	_ = l.cluster.Book.Adopt(a, heirs[0])
	l.wake(heirs...)
}

// unclaim drops the claims of who to all but addresses.
func (l *ledger) unclaim(who pool.Owner, addresses []netip.Addr) {
	for a, claimants := range l.claims {
		if slices.Contains(claimants, who) && !slices.Contains(addresses, a) {
			l.setClaims(a, slices.DeleteFunc(slices.Clone(claimants), func(o pool.Owner) bool { return o == who }))
		}
	}
}

func (l *ledger) setClaims(a netip.Addr, claimants []pool.Owner) {
	if len(claimants) == 0 {
		delete(l.claims, a)
		return
	}
	l.claims[a] = claimants
}

func owner(r service.Request) pool.Owner { return pool.Owner(r.Key()) }
