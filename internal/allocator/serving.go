package allocator

import (
	"iter"
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/ipam"
	"purelb.io/purelb/internal/service"
)

// Every change about an address only marks the address. At the end of each change,
// serve asks the Services that wait for a marked address.

// mark notes that something has changed about a: it came free, it was taken, or the
// Services that share it want something else.
func (l *allocations) mark(a netip.Addr) { l.marked = append(l.marked, a) }

// serveAll chooses anew for all Services that wait, the oldest first.
func (l *allocations) serveAll() {
	if !l.isOpen() {
		return
	}
	for _, w := range slices.SortedFunc(l.waiters(), olderWaiter) {
		if l.again(w) {
			l.wake(owner(w.request))
		}
	}
	l.serve()
}

// waiters returns the Services that wait, in no order.
func (l *allocations) waiters() iter.Seq[*waiter] {
	return func(yield func(*waiter) bool) {
		for _, rec := range l.services {
			if rec.waiting != nil && !yield(rec.waiting) {
				return
			}
		}
	}
}

// serve gives what has come free to the Services that wait for it, the oldest first,
// as long as there is something left of it. No younger Service comes before them,
// because each change ends with serve.
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

// offer asks the Services that wait for a, or for one like it, the oldest first.
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

// again chooses anew for w, holds what was chosen, and reports whether that is
// something else than before.
func (l *allocations) again(w *waiter) bool {
	choice := l.choose(w.request)
	if err := l.hold(owner(w.request), choice); err != nil {
		return true // The loop looks at the Service, and finds the same.
	}
	l.claim(owner(w.request), choice)
	differs := !same(choice, w.last)
	l.enlist(w, choice)
	return differs
}

// same reports whether two choices look the same on a Service.
func same(a, b ipam.Choice) bool {
	return slices.Equal(a.Result.Addresses, b.Result.Addresses) && a.ClusterPolicy == b.ClusterPolicy &&
		a.Result.Reason == b.Result.Reason && a.Result.Message == b.Result.Message
}

// round is what serve finds out while it asks Services.
type round struct {
	// free says whether there is a free address of a group and a family. It holds
	// until an address is given.
	free map[ipam.Need]bool
	// hints counts the Services that were asked about an address only to learn what
	// keeps them from it now.
	hints map[netip.Addr]int
}

// mostHints is how many Services in a queue learn at once that something else keeps
// them from an address than before, such as another Service. In a long queue the
// others learn it when the allocator looks at them for another reason.
const mostHints = 16

// mayHelp reports whether x may change anything for w, which waits in a queue for it,
// as far as that can be told without choosing.
func (l *allocations) mayHelp(w *waiter, in ipam.Need, x ipam.Prospect, r *round) bool {
	if in.Group != "" {
		// A Service that has an address of the pool of x, and is not to replace it, misses
		// one of another pool.
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

// complete reports whether w can have addresses of all families that it needs beside
// f, if it takes all or nothing.
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

// isFree reports whether there is a free address of the group and family of n.
func (l *allocations) isFree(n ipam.Need, r *round) bool {
	free, known := r.free[n]
	if !known {
		free = l.cluster.HasFree(n)
		r.free[n] = free
	}
	return free
}
