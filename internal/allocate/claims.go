package allocate

import (
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/allocate/netbox"
)

// The methods in this file list the requests to backends, and process the answers. The workers of
// package backends exchange both with the backends, so no decision waits for a backend.

// identity returns how NetBox knows the cluster. replaces is the UID of a former cluster, or "".
func (l *allocations) identity(replaces string) netbox.Identity {
	l.mu.Lock()
	defer l.mu.Unlock()
	return netbox.Identity{Cluster: l.cluster.Claims.Cluster(), UID: l.uid, Replaces: replaces}
}

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

// Work implements backends.Ledger. It dismisses no holder for which the backend may hold an address
// that a Service has.
func (l *allocations) Work(h ipam.Holder) ipam.Work {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.cluster.Claims.Work(h)
	l.learn(w.Kept)
	if w.Dismiss != "" && l.mayHave(h.Group, w.Dismiss) {
		l.cluster.Claims.Dismissed(h, nil)
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
		if errs[i] == nil {
			l.wakeOwner(g.Key)
			l.retry(h.Group, addr.FamilyOf(g.Address))
		}
	}
	return again
}

// Dismissed implements backends.Ledger. The addresses that the backend had for the holder may be free
// now.
func (l *allocations) Dismissed(h ipam.Holder, key string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cluster.Claims.Dismissed(h, err); err != nil {
		return
	}
	delete(l.departures[ipam.OwnerOf(key)], h.Group)
	l.wakeOwner(key)
	l.retry(h.Group, addr.V4, addr.V6)
}

// wakeOwner wakes the Service of a key, which may need its finalizer no longer.
func (l *allocations) wakeOwner(key string) {
	if who := ipam.OwnerOf(key); who != "" {
		l.wake(who)
	}
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
func (l *allocations) Holds() (grants map[string][]ipam.Grant, complete bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cluster.Claims.Grants(), l.isOpen()
}

// Register implements backends.Ledger.
func (l *allocations) Register(group string, missing []ipam.Grant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.poke(l.cluster.Claims.Register(group, missing)...)
}

// Learn implements backends.Ledger.
func (l *allocations) Learn(group string, grants []ipam.Grant) (orphans []ipam.Grant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	orphans, known := l.cluster.Claims.Learn(group, grants)
	l.learn(known)
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
