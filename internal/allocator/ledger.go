package allocator

import (
	"net/netip"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

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

	mu sync.Mutex
	// now are the surroundings, and cluster what a choice depends on of them,
	// and the book.
	now     surroundings
	cluster selection.Cluster
	claims  claims
	// uids tell whose holdings these are, of the Services that have had a name.
	uids    map[pool.Owner]types.UID
	waiting map[pool.Owner]*waiter
	lines   lines
	// chances are what has come free and was not offered yet to those who
	// wait.
	chances []*chance
	// choices is how many choices were made, and offers how often a chance was
	// offered to somebody: what work costs is counted, not timed.
	choices, offers int
}

func newLedger(wake func(...pool.Owner)) *ledger {
	claims := claims{}
	return &ledger{
		wake:    wake,
		opened:  make(chan struct{}),
		cluster: selection.Cluster{Book: pool.NewBook(), Claims: claims},
		claims:  claims,
		uids:    map[pool.Owner]types.UID{},
		waiting: map[pool.Owner]*waiter{},
		lines:   lines{},
	}
}

// open starts the ledger with all Services that there are. Those with addresses
// keep them; what is missing is given in the order in which the Services were
// created. The surroundings must be known.
func (l *ledger) open(requests []service.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.SortFunc(requests, byAge)
	for _, r := range requests {
		l.adopt(r)
		if r.Foreign == "" {
			l.waiting[owner(r)] = &waiter{request: r}
		}
	}
	close(l.opened)
	l.serveAll()
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

// pending returns those of requests, the oldest first, that would not be left
// as they are if the ledger were opened with them, or that were not if another had
// been. It changes nothing.
func (l *ledger) pending(requests []service.Request) []service.Request {
	l.mu.Lock()
	now := l.now
	l.mu.Unlock()
	trial := newLedger(func(...pool.Owner) {})
	trial.change(now)
	requests = slices.SortedFunc(slices.Values(requests), byAge)
	for _, r := range requests {
		trial.adopt(r)
	}
	return slices.DeleteFunc(requests, func(r service.Request) bool {
		if r.Foreign != "" {
			return true
		}
		choice := trial.choose(r)
		return !r.Reevaluate && choice.Refusal == nil && len(choice.Needs) == 0 && slices.Equal(choice.Result.Addresses, r.Held)
	})
}

// change notes new surroundings, and gives what they make possible to those who
// wait for it.
func (l *ledger) change(s surroundings) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = s
	l.cluster.Config, l.cluster.Subnets, l.cluster.Boundaries = s.config, s.subnets, s.boundaries
	l.cluster.Book.SetBlocked(s.blocked)
	l.serveAll()
}

// decision is what is to become of a Service.
type decision struct {
	selection.Choice
	// news says that the refusal is one that was not known yet.
	news bool
	// ended are addresses that the Service has, shows, and shall not have any
	// more.
	ended []netip.Addr
}

// decide chooses for the Service of r, which is ours, and holds what it chose.
func (l *ledger) decide(r service.Request) (decision, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Held = l.shown(r)
	d := decision{Choice: l.choose(r)}
	if err := l.hold(owner(r), d.Choice); err != nil {
		return decision{}, err
	}
	d.ended = without(r.Held, d.Result.Addresses)
	d.news = l.wait(r, d.Choice)
	l.serve()
	return d, nil
}

// choose chooses for the Service of r, and changes nothing.
func (l *ledger) choose(r service.Request) selection.Choice {
	l.choices++
	return l.cluster.Choose(r)
}

// note writes down the addresses of a Service that is not ours. They are not
// given to others: two load balancers may have pools in common.
func (l *ledger) note(r service.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(owner(r))
	l.adopt(r)
	l.keepOnly(owner(r), r.Held)
	l.serve()
}

// holdsMore reports whether anything beside addresses is held for who, or claimed
// by it.
func (l *ledger) holdsMore(who pool.Owner, addresses []netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(without(l.cluster.Book.Held(who), addresses)) > 0 || len(without(l.claims.of(who), addresses)) > 0
}

// settle notes that the API server has a Service show these addresses, so that
// what else was held for it is free, but for what it was served since that was
// decided.
func (l *ledger) settle(who pool.Owner, addresses []netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.waiting[who]; w != nil {
		addresses = slices.Concat(addresses, w.last.Result.Addresses)
	}
	l.keepOnly(who, addresses)
	l.serve()
}

func owner(r service.Request) pool.Owner { return pool.Owner(r.Key()) }
