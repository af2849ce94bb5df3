package allocator

import (
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"purelb.io/purelb/internal/census"
	"purelb.io/purelb/internal/ipam"
	"purelb.io/purelb/internal/service"
)

// judged returns r as the allocations see it: a Service whose addresses another
// controller replaced is left to that controller, unless it is known as one of ours.
func (l *allocations) judged(r service.Request) service.Request {
	who := owner(r)
	if l.isKnown(who) && l.of(who).another == "" {
		return r
	}
	return census.Unwatched(r)
}

// isKnown reports whether a Service holds something, or waits.
func (l *allocations) isKnown(who ipam.Owner) bool {
	return len(l.cluster.Store.Held(who)) > 0 || l.of(who).waiting != nil
}

// shown notes the terms of the Service of r, and returns which of the addresses
// in its status it has. For a Service that was never seen before these are all
// that PureLB vouches for. Later, an address that the store does not have for the
// Service is forged.
func (l *allocations) shown(r service.Request) []netip.Addr {
	who, store := owner(r), l.cluster.Store
	if !l.isKnown(who) {
		l.adopt(r)
		l.recall(r)
	} else {
		census.AdoptClaims(l.cluster, r)
		l.grant(who, ipam.TermsOf(r))
		for _, a := range store.Contended(who) {
			if slices.Contains(r.Held, a) {
				l.show(a, who) // its terms may be those of the holders now
			}
		}
	}
	booked := store.Shown(who)
	return slices.DeleteFunc(slices.Clone(r.Held), func(a netip.Addr) bool { return !slices.Contains(booked, a) })
}

// adoptAll notes what Services have, and returns them in order of age. What their
// statuses show comes before what they showed once.
func (l *allocations) adoptAll(requests []service.Request) []service.Request {
	requests = slices.SortedFunc(slices.Values(requests), census.ByAge)
	for i, r := range requests {
		requests[i] = l.judged(r)
		l.adopt(requests[i])
	}
	for _, r := range requests {
		l.recall(r)
	}
	return requests
}

// adopt notes that the Service of r has what its status shows.
func (l *allocations) adopt(r service.Request) {
	who, rec := owner(r), l.of(owner(r))
	rec.uid, rec.another = r.UID, ""
	if r.Owner == service.Anothers {
		rec.another = whyAnothers(r)
	}
	l.grant(who, census.TermsOf(r))
	for _, a := range r.Held {
		l.show(a, who)
	}
	census.AdoptClaims(l.cluster, r)
}

// show notes that a Service shows a.
func (l *allocations) show(a netip.Addr, who ipam.Owner) {
	l.wake(l.cluster.Store.Show(a, who)...)
	l.mark(a)
}

// recall holds for the Service of r what it has a right to and does not show: see
// census.Recall.
func (l *allocations) recall(r service.Request) {
	census.Recall(l.cluster, r)
	if r.Owner != service.Anothers {
		l.poke(l.cluster.Claims.Left(r.Vouched)...)
	}
}

// grant notes under which terms a Service holds addresses. Others may get what it
// does not want any more, and contenders may be let in.
func (l *allocations) grant(who ipam.Owner, terms ipam.Terms) {
	store := l.cluster.Store
	was := store.Terms(who)
	store.Grant(who, terms)
	is := store.Terms(who)
	if was.Selector != is.Selector {
		l.doubtLocals(who, store.Held(who))
	}
	if was.Key == is.Key && slices.Equal(was.Ports, is.Ports) {
		return
	}
	for _, a := range store.Held(who) {
		l.wake(store.Contenders(a)...)
		l.mark(a)
	}
}

// hold notes that a Service has what was chosen for it, beside what it shows. It must
// be free for the Service: if it is not, nothing may be written.
func (l *allocations) hold(who ipam.Owner, choice ipam.Choice) error {
	store := l.cluster.Store
	for _, a := range without(choice.Result.Addresses, store.Shown(who)) {
		_, shared := store.Holder(a)
		if err := store.Hold(a, who, l.cluster.Wide(a)); err != nil {
			return fmt.Errorf("hold what was chosen for service %s: %w", who, err)
		}
		if shared {
			l.doubtLocals(who, []netip.Addr{a})
		} else {
			l.mark(a)
		}
	}
	return nil
}

// doubtLocals wakes the Services that share one of addresses with this one, and keep
// the policy Local because all sharers have the same pods. This one is a new sharer,
// or its selector has changed.
func (l *allocations) doubtLocals(who ipam.Owner, addresses []netip.Addr) {
	for _, a := range addresses {
		l.wake(l.cluster.Store.Locals(a, who)...)
	}
}

// keepOnly frees what the store has for a Service beside addresses.
func (l *allocations) keepOnly(who ipam.Owner, addresses []netip.Addr) {
	l.leave(l.cluster.Store.Keep(who, addresses))
}

// leave notes that a Service left addresses, and wakes the Services that are concerned.
func (l *allocations) leave(left []netip.Addr, concerned []ipam.Owner) {
	l.wake(concerned...)
	l.marked = append(l.marked, left...)
	l.poke(l.cluster.Claims.Left(left)...)
}

// holdsMore reports whether the store has anything beside addresses for a Service.
func (l *allocations) holdsMore(who ipam.Owner, addresses []netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(without(l.cluster.Store.Shown(who), addresses)) > 0
}

// settle notes that the API server has a Service show these addresses. What else was
// held for it is free, but for what it was given since that was decided.
func (l *allocations) settle(who ipam.Owner, addresses []netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.of(who).waiting; w != nil {
		addresses = slices.Concat(addresses, w.last.Result.Addresses)
	}
	l.keepOnly(who, addresses)
	l.serve()
}

// note holds the addresses of a Service that is another controller's. They are not
// given to Services of ours: the pools of two controllers may overlap. It returns
// the addresses that Services of ours hold, as far as that is news.
func (l *allocations) note(r service.Request) []netip.Addr {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.cluster.Store.Contended(owner(r))
	l.drop(owner(r))
	l.claim(owner(r), ipam.Choice{})
	l.adopt(r)
	l.keepOnly(owner(r), r.Held)
	l.serve()
	return without(l.cluster.Store.Contended(owner(r)), before)
}

// holders returns the Services that hold a.
func (l *allocations) holders(a netip.Addr) []ipam.Owner {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cluster.Store.Holders(a)
}

// takeOver makes a Service ours that was another controller's, and frees what that
// controller gave it.
func (l *allocations) takeOver(who ipam.Owner) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keepOnly(who, nil)
	l.of(who).another = ""
	l.serve()
}

// forget frees what the Service of this name holds, which is gone. If it is the Service
// with the UID remaining, it is not gone, and forget does nothing and reports false.
func (l *allocations) forget(who ipam.Owner, remaining types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if remaining != "" && !l.isReplaced(who, remaining) {
		return false
	}
	l.claim(who, ipam.Choice{})
	l.leave(l.cluster.Store.Forget(who))
	l.drop(who)
	delete(l.services, who)
	l.serve()
	return true
}

// isReplaced reports whether another Service than that with this UID is known by the
// name.
func (l *allocations) isReplaced(who ipam.Owner, uid types.UID) bool {
	known := l.services[who]
	return known != nil && known.uid != "" && known.uid != uid
}
