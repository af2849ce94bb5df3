package allocator

import (
	"iter"
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/ipam"
	"purelb.io/purelb/internal/service"
)

// A change marks the addresses that it concerns. At the end of each change, serve asks the
// Services that wait for a marked address.

// mark notes that something has changed about a: it was freed, it was taken, or a Service
// that shares it has new terms.
func (l *allocations) mark(a netip.Addr) { l.marked = append(l.marked, a) }

// serveAll chooses again for all waiting Services, the oldest first.
func (l *allocations) serveAll() {
	if !l.isOpen() {
		return
	}
	for who, rec := range l.services {
		if rec.notAdopted {
			l.wake(who)
		}
	}
	for _, w := range slices.SortedFunc(l.waiters(), olderWaiter) {
		if l.again(w) {
			l.wake(owner(w.request))
		}
	}
	l.serve()
}

// waiters returns the waiting Services, in no order.
func (l *allocations) waiters() iter.Seq[*waiter] {
	return func(yield func(*waiter) bool) {
		for _, rec := range l.services {
			if rec.waiting != nil && !yield(rec.waiting) {
				return
			}
		}
	}
}

// serve offers each marked address to the Services that wait for it, the oldest first,
// until it is used up. Each change ends with serve, so no younger Service gets an address
// before an older one.
func (l *allocations) serve() {
	if len(l.marked) == 0 {
		return
	}
	r := &round{free: map[ipam.Need]bool{}, hints: map[netip.Addr]int{}}
	for len(l.marked) > 0 {
		a := l.marked[0]
		l.marked = l.marked[1:]
		if l.isOpen() {
			l.offer(a, r)
		}
	}
}

// offer asks the Services that wait for a, or for an address like it, the oldest first.
func (l *allocations) offer(a netip.Addr, r *round) {
	var last *waiter
	for {
		x := l.cluster.Prospect(a)
		w, in := l.queues.next(last, x.Needs)
		if w == nil {
			return
		}
		last = w
		l.offers++
		if l.mayHelp(w, in, x, r) && l.again(w) {
			l.wake(owner(w.request))
			clear(r.free)
		}
	}
}

// again chooses again for w, makes the store hold the choice, and reports whether the
// choice has changed.
func (l *allocations) again(w *waiter) bool {
	choice := l.choose(w.request)
	if err := l.hold(owner(w.request), choice); err != nil {
		return true // The loop reconciles the Service, and reports the same error.
	}
	l.claim(owner(w.request), choice)
	differs := !same(choice, w.last)
	l.enlist(w, choice)
	return differs
}

// same reports whether two choices lead to the same status.
func same(a, b ipam.Choice) bool {
	return slices.Equal(a.Result.Addresses, b.Result.Addresses) && a.ClusterPolicy == b.ClusterPolicy &&
		a.Result.Reason == b.Result.Reason && a.Result.Message == b.Result.Message
}

// round is what serve finds out while it asks Services.
type round struct {
	// free says whether a group has a free address of a family. It is valid until an
	// address is given.
	free map[ipam.Need]bool
	// hints counts the Services that were asked about an address only to update the reason
	// why they cannot have it.
	hints map[netip.Addr]int
}

// mostHints limits how many Services in a queue are asked at once because the reason for their
// refusal has changed, for example because another Service holds the address now. The other
// Services in a long queue get the new reason when they are reconciled for another cause.
const mostHints = 16

// mayHelp reports whether x may change the outcome for w, which waits in the queue in. It makes no
// full choice.
func (l *allocations) mayHelp(w *waiter, in ipam.Need, x ipam.Prospect, r *round) bool {
	if in.Group != "" {
		// A Service that has an address of the pool of x and need not replace it waits for
		// an address of another pool.
		return (w.request.Reevaluate || !x.SamePool(w.last.Result.Addresses)) && l.complete(w, in.Family, r)
	}
	was, is := w.barred[x.Addr], x.Bar(owner(w.request))
	switch {
	case is.Reason == "":
		return true
	case was == is, in.SharingKey != "" && is.Reason != ipam.HeldByPort:
		return false
	case is.Reason == ipam.HeldByPort, is.Reason == was.Reason:
		r.hints[x.Addr]++
		return r.hints[x.Addr] <= mostHints
	}
	return true
}

// complete reports whether w can get addresses of all other families that it needs, besides
// f. This matters only for Services that take all families or nothing.
func (l *allocations) complete(w *waiter, f addr.Family, r *round) bool {
	if w.request.Policy != service.All || len(l.cluster.Store.Held(owner(w.request))) > 0 {
		return true
	}
	return !slices.ContainsFunc(w.request.Families, func(other addr.Family) bool {
		var needs, has bool
		for _, n := range w.last.Needs {
			if n.Group != "" && n.Family == other && other != f {
				needs, has = true, has || l.isFree(n, r)
			}
		}
		return needs && !has
	})
}

// isFree reports whether the group of n has a free address of the family of n.
func (l *allocations) isFree(n ipam.Need, r *round) bool {
	free, known := r.free[n]
	if !known {
		free = l.cluster.HasFree(n)
		r.free[n] = free
	}
	return free
}
