package allocate

import (
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/allocate/ipam"
)

// A change of the store touches the addresses that it concerns. At the end of each change, serve asks
// the Services that wait for a touched address. A question costs microseconds, and the first Service
// that takes a free address ends the questions about it.

// serveAll chooses again for all waiting Services, the oldest first.
func (l *allocations) serveAll() {
	if !l.isOpen() {
		return
	}
	for _, w := range slices.Clone(l.waiters) {
		if l.again(w) {
			l.wake(owner(w.request))
		}
	}
	l.serve()
}

// serve offers each touched address to the Services that wait for it, the oldest first,
// until it is used up. Each change ends with serve, so no younger Service gets an address
// before an older one.
func (l *allocations) serve() {
	for {
		touched, concerned := l.cluster.Store.Touched()
		l.wake(concerned...)
		if len(touched) == 0 {
			return
		}
		l.poke(l.cluster.Claims.Left(touched)...)
		for _, a := range touched {
			if l.isOpen() {
				l.offer(a)
			}
		}
	}
}

// offer asks the Services that wait for a, or for an address like it, the oldest first.
func (l *allocations) offer(a netip.Addr) {
	if len(l.waiters) == 0 {
		return
	}
	meets := l.cluster.Meets(a)
	for _, w := range l.waiters {
		if !slices.ContainsFunc(w.last.Needs, func(n ipam.Need) bool { return slices.Contains(meets, n) }) {
			continue
		}
		if l.again(w) {
			l.wake(owner(w.request))
			if meets = l.cluster.Meets(a); l.heldAlone(a) {
				return // no other Service can have it now
			}
		}
	}
}

// heldAlone reports whether a Service holds a and shares it with nobody.
func (l *allocations) heldAlone(a netip.Addr) bool {
	_, key, held := l.cluster.Store.Use(a)
	return held && key == ""
}

// again chooses again for w, makes the store hold the choice, and reports whether the
// choice has changed.
func (l *allocations) again(w *waiter) bool {
	choice := l.choose(w.request)
	if err := l.hold(owner(w.request), choice); err != nil {
		return true // The loop reconciles the Service, and reports the same error.
	}
	l.claim(owner(w.request), l.claims(w.request, choice))
	differs := !same(choice, w.last)
	w.last = choice
	return differs
}

// same reports whether two choices lead to the same status.
func same(a, b ipam.Choice) bool {
	return slices.Equal(a.Result.Addresses, b.Result.Addresses) && a.ClusterPolicy == b.ClusterPolicy &&
		a.Result.Reason == b.Result.Reason && a.Result.Message == b.Result.Message
}
