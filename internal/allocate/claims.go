package allocate

import (
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
)

// The methods in this file list the requests to backends, and process the answers. The workers of
// package backends exchange both with the backends, so no decision waits for a backend.

// claim records the claims that a Service waits for.
func (l *allocations) claim(who ipam.Owner, claims []ipam.Claim) {
	due, granted := l.cluster.Claims.Want(who, claims)
	l.poke(due...)
	l.wake(granted...)
}

// noteFault records why the backend of a group answers no claims. A nil fault says that the backend
// answers.
func (l *allocations) noteFault(group string, fault *ipam.Error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wake(l.cluster.Claims.SetFault(group, fault)...)
}

// Pending implements backends.Ledger.
func (l *allocations) Pending(group string) []ipam.Holder {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cluster.Claims.Pending(group)
}

// Work implements backends.Ledger. It does not give back everything of a holder for which the backend
// may hold an address that a Service has.
func (l *allocations) Work(h ipam.Holder) ipam.Work {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.cluster.Claims.Work(h)
	l.learn(w.Kept)
	if all := w.Release; len(all) > 0 && !all[0].Address.IsValid() && l.mayHave(h.Group, all[0].Key) {
		l.cluster.Claims.Released(h, all, []error{nil})
		return ipam.Work{}
	}
	return w
}

// Answered implements backends.Ledger. It chooses again at once for the Services that wait for the
// claims, so that no other Service gets their grants.
func (l *allocations) Answered(h ipam.Holder, claims []ipam.Claim, answers []ipam.Answer) (again bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	verdicts, again := l.cluster.Claims.Answered(h, claims, answers, l.cluster.Usable)
	for _, v := range verdicts {
		for _, who := range v.Wanters {
			if rec := l.services[who]; rec != nil && rec.waiting != nil {
				l.again(rec.waiting)
			}
			l.wake(who)
		}
		if v.Address.IsValid() {
			l.mark(v.Address) // a Service that may share v.Address may wait for it
			l.retry(h.Group, v.Claim.Family)
		}
	}
	l.serve()
	return again
}

// Released implements backends.Ledger. The backend can now grant the released addresses to
// Services that it refused before.
func (l *allocations) Released(h ipam.Holder, grants []ipam.Grant, errs []error) (again bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	again = l.cluster.Claims.Released(h, grants, errs)
	for i, g := range grants {
		if errs[i] != nil {
			continue
		}
		who := ipam.OwnerOf(g.Key)
		if who != "" {
			l.wake(who) // it may need its finalizer no longer
		}
		if g.Address.IsValid() {
			l.retry(h.Group, addr.FamilyOf(g.Address))
			continue
		}
		delete(l.departures[who], h.Group)
		l.retry(h.Group, addr.V4, addr.V6)
	}
	return again
}

// Freed implements backends.Ledger.
func (l *allocations) Freed(group string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retry(group, addr.V4, addr.V6)
}

// retry lets one claim of each family be sent again that was refused because no address was free. If it
// is granted, the next one follows.
func (l *allocations) retry(group string, families ...addr.Family) {
	for _, f := range families {
		if h, ok := l.cluster.Claims.Exhausted(group, f); ok {
			l.poke(h)
		}
	}
}

// mayHave reports whether a Service may have an address that the backend of the group holds under
// key. The answer is always yes for a key with a sharing key, because it names no Service. A
// Service may have got the address under that sharing key and may have dropped the key since.
func (l *allocations) mayHave(group, key string) bool {
	who := ipam.OwnerOf(key)
	return who == "" || slices.ContainsFunc(l.cluster.Store.Held(who), func(a netip.Addr) bool {
		g, _, known := l.cluster.GroupOf(a)
		return !known || g.Ref() == group
	})
}

// Holds implements backends.Ledger.
func (l *allocations) Holds() map[string][]ipam.Grant {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cluster.Claims.Grants()
}

// Compared implements backends.Ledger.
func (l *allocations) Compared(group string, unknown, missing []ipam.Grant) (orphans []ipam.Grant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	orphans, known := l.cluster.Claims.Learn(group, unknown)
	l.learn(known)
	l.poke(l.cluster.Claims.Register(group, missing)...)
	return orphans
}

// learn wakes the Services that have one of addresses, whose group has become known.
func (l *allocations) learn(addresses []netip.Addr) {
	for _, a := range addresses {
		l.wake(l.cluster.Store.Holders(a)...)
		l.mark(a)
	}
	if len(addresses) > 0 {
		l.serve()
	}
}
