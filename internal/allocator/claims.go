package allocator

import (
	"net/netip"
	"slices"
	"time"

	"purelb.io/purelb/internal/ipam"
)

// The methods in this file list the requests to backends, and process the answers. The workers of
// package backends exchange both with the backends, so no decision waits for a backend.

// nameCluster sets the name of the cluster, which is part of the keys of its claims.
func (l *allocations) nameCluster(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.isOpen() {
		l.cluster.Claims.SetCluster(name)
	}
}

// clusterName returns the name of the cluster.
func (l *allocations) clusterName() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cluster.Claims.Cluster()
}

// clusterUID returns the UID of the namespace kube-system.
func (l *allocations) clusterUID() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now.uid
}

// claim records the claims that a Service waits for.
func (l *allocations) claim(who ipam.Owner, claims []ipam.Claim) {
	groups, granted := l.cluster.Claims.Want(who, claims)
	if len(groups) > 0 {
		l.poke(groups...)
	}
	l.wake(granted...)
}

// noteFault records why the backend of a group answers no claims. A nil fault says that the backend
// answers.
func (l *allocations) noteFault(group string, fault *ipam.Error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wake(l.cluster.Claims.SetFault(group, fault)...)
}

// Wanted implements backends.Ledger.
func (l *allocations) Wanted(group string, most int) []ipam.Claim {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cluster.Claims.Next(group, most, time.Now())
}

// Answered implements backends.Ledger. It chooses again at once for the Services that wait for the
// claims, so that no other Service gets their grants.
func (l *allocations) Answered(_ string, claims []ipam.Claim, answers []ipam.Answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, v := range l.cluster.Claims.Answered(claims, answers, time.Now(), l.cluster.Usable) {
		for _, who := range v.Wanters {
			if rec := l.services[who]; rec != nil && rec.waiting != nil {
				l.again(rec.waiting)
			}
			l.wake(who)
		}
		if v.Address.IsValid() {
			l.mark(v.Address) // a Service that may share v.Address may wait for it
		}
	}
	l.serve()
}

// Releasing implements backends.Ledger.
func (l *allocations) Releasing(group string, most int) []ipam.Grant {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cluster.Claims.Returns(group, most)
}

// Released implements backends.Ledger. The backend can now grant the released addresses to
// Services that it refused before.
func (l *allocations) Released(group string, grants []ipam.Grant, errs []error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	more := l.cluster.Claims.Returned(group, grants, errs)
	for i, g := range grants {
		if who := ipam.OwnerOf(g.Key); errs[i] == nil && who != "" {
			l.wake(who) // it may need its finalizer no longer
		}
	}
	if l.cluster.Claims.Retry(group) || more {
		l.poke(group)
	}
}

// Freed implements backends.Ledger.
func (l *allocations) Freed(group string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retry(group)
}

// retry lets the claims be sent again that were refused because no address was free.
func (l *allocations) retry(group string) {
	if l.cluster.Claims.Retry(group) {
		l.poke(group)
	}
}

// Departed implements backends.Ledger. It omits a holder if the backend may hold an address for it
// that a Service has.
func (l *allocations) Departed(group string, most int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(l.cluster.Claims.Departed(group, most), func(key string) bool { return l.mayHave(group, key) })
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

// Dismissed implements backends.Ledger. Holders whose dismissal failed are dismissed again.
// The addresses that the backend had for the others may be free now.
func (l *allocations) Dismissed(group string, keys []string, errs []error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	freed := false
	for i, key := range keys {
		if errs[i] != nil {
			l.cluster.Claims.Depart(group, key)
			continue
		}
		freed = true
		who := ipam.OwnerOf(key)
		delete(l.departures[who], group)
		l.wake(who)
	}
	if freed {
		l.retry(group)
	}
}

// Holds implements backends.Ledger.
func (l *allocations) Holds() (grants map[string][]ipam.Grant, complete bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cluster.Claims.Grants(), l.isOpen()
}

// Has implements backends.Ledger.
func (l *allocations) Has(a netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, held := l.cluster.Store.Holder(a)
	return held
}

// Register implements backends.Ledger.
func (l *allocations) Register(group string, missing []ipam.Grant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cluster.Claims.Register(group, missing)
	l.poke(group)
}

// Learn implements backends.Ledger. It wakes the Services that have one of the addresses, because the
// group of the address has become known only now.
func (l *allocations) Learn(group string, grants []ipam.Grant) (orphans []ipam.Grant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	orphans, known := l.cluster.Claims.Learn(group, grants)
	for _, a := range known {
		l.wake(l.cluster.Store.Holders(a)...)
		l.mark(a)
	}
	l.serve()
	return orphans
}
