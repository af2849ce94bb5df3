package allocator

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"purelb.io/purelb/internal/pool"
	"purelb.io/purelb/internal/selection"
	"purelb.io/purelb/internal/service"
)

// shown notes the terms of the Service of r, and returns which of the addresses
// in its status it has. For a Service that was never seen before these are all
// of them; later, one that we did not give was written there by hand.
func (l *ledger) shown(r service.Request) []netip.Addr {
	who := owner(r)
	if len(l.cluster.Book.Held(who)) == 0 && l.waiting[who] == nil {
		l.adopt(r)
	} else {
		l.grant(who, selection.Terms(r))
		l.reclaim(r)
	}
	booked := l.cluster.Book.Held(who)
	return slices.DeleteFunc(slices.Clone(r.Held), func(a netip.Addr) bool {
		return !slices.Contains(booked, a) && !slices.Contains(l.claims[a], who)
	})
}

// adopt notes that the Service of r has what its status shows.
func (l *ledger) adopt(r service.Request) {
	terms := selection.Terms(r)
	if r.Foreign != "" {
		terms = pool.Terms{}
	}
	l.uids[owner(r)] = r.UID
	l.grant(owner(r), terms)
	for _, a := range r.Held {
		var held *pool.HeldError
		switch err := l.cluster.Book.Adopt(a, owner(r)); {
		case err == nil:
			l.unclaim(a, owner(r)) // of before the holders let it in
		case errors.As(err, &held):
			l.claims.add(a, owner(r))
		}
	}
}

// grant notes under which terms who holds addresses. Others may get what who
// does not want any more, and those who claim an address may be let in.
func (l *ledger) grant(who pool.Owner, terms pool.Terms) {
	book := l.cluster.Book
	was := book.Terms(who)
	book.Grant(who, terms)
	if is := book.Terms(who); was.Key == is.Key && slices.Equal(was.Ports, is.Ports) {
		return
	}
	for _, a := range book.Held(who) {
		l.wake(l.claims[a]...)
		l.stir(a)
	}
}

// hold notes that who has what was chosen for it, beside what it claims. It must
// be free for who: if it is not, nothing may be written.
func (l *ledger) hold(who pool.Owner, choice selection.Choice) error {
	book := l.cluster.Book
	for _, a := range without(choice.Result.Addresses, book.Held(who)) {
		if slices.Contains(l.claims[a], who) {
			continue
		}
		shared := l.taken(a)
		if err := book.Hold(a, who, l.cluster.Wide(a)); err != nil {
			return fmt.Errorf("hold what was chosen for service %s: %w", who, err)
		}
		if !shared {
			l.stirKey(a)
		}
	}
	return nil
}

// keepOnly frees what is held for who beside addresses.
func (l *ledger) keepOnly(who pool.Owner, addresses []netip.Addr) {
	for _, a := range without(l.claims.of(who), addresses) {
		l.unclaim(a, who)
	}
	for _, a := range without(l.cluster.Book.Held(who), addresses) {
		l.cluster.Book.Release(a, who)
		l.inherit(a)
		l.stir(a)
	}
}

// forget notes that a Service is not there any more, or not of type
// LoadBalancer.
func (l *ledger) forget(who pool.Owner) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(who)
	l.keepOnly(who, nil)
	l.cluster.Book.Drop(who)
	delete(l.uids, who)
	l.serve()
}

// replaces reports whether the Service with this UID is another than the one that
// the ledger knows by its name.
func (l *ledger) replaces(who pool.Owner, uid types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	known, there := l.uids[who]
	return there && known != uid
}
