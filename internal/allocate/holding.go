package allocate

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/census"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/service"
)

// isKnown reports whether a Service holds an address or waits for one.
func (l *allocations) isKnown(who ipam.Owner) bool {
	return len(l.cluster.Store.Held(who)) > 0 || l.of(who).waiting != nil
}

// shown records what the Service of r shows, and its sharing terms. It returns the addresses in the
// status that the Service holds. For a Service that is new to the allocations, these are all addresses
// that PureLB gave according to the Service. Later, an address that the store does not have for the
// Service is forged.
func (l *allocations) shown(r service.Request) []netip.Addr {
	who := owner(r)
	takenOver := l.of(who).foreign != "" || r.Adopt && r.Owner == service.Adopted
	if takenOver {
		l.keepOnly(who, r.Held) // and no other Service gets what is freed before this one has chosen
	}
	anew := takenOver || !l.isKnown(who)
	if !anew {
		r.Held = census.Shown(l.cluster, r)
	}
	l.adopt(r)
	if anew {
		census.Recall(l.cluster, r)
		l.poke(l.cluster.Claims.Left(r.Vouched)...)
	}
	return census.Shown(l.cluster, r)
}

// enroll records whose the Service of r is.
func (l *allocations) enroll(r service.Request) {
	rec := l.of(owner(r))
	rec.uid, rec.foreign = r.UID, ""
	if r.Owner == service.Anothers {
		rec.foreign = r.Reason
	}
}

// adopt makes the store hold for the Service of r what its status shows.
func (l *allocations) adopt(r service.Request) {
	l.enroll(r)
	census.Adopt(l.cluster, r)
}

// withhold notes which addresses no other Service gets because of this one, which is gone or not of type
// LoadBalancer.
func (l *allocations) withhold(who ipam.Owner, addresses []netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cluster.Store.List(who, addresses)
	l.serve()
}

// hold makes the store hold the addresses that were chosen for a Service and that its status does
// not show yet. It fails if an address is not free for the Service. Then nothing may be written.
func (l *allocations) hold(who ipam.Owner, choice ipam.Choice) error {
	store := l.cluster.Store
	for _, a := range addr.Without(choice.Result.Addresses, store.Shown(who)) {
		if err := store.Hold(a, who, l.cluster.Wide(a)); err != nil {
			return fmt.Errorf("hold what was chosen for service %s: %w", who, err)
		}
	}
	return nil
}

// keepOnly frees everything that the store has for a Service, except addresses. If the Service takes
// an edit back, it gets the freed addresses again.
func (l *allocations) keepOnly(who ipam.Owner, addresses []netip.Addr) {
	left := l.cluster.Store.Keep(who, addresses)
	l.cluster.Store.Vacate(who, left, time.Now())
}

// holdsMore reports whether the store has anything for a Service except addresses.
func (l *allocations) holdsMore(who ipam.Owner, addresses []netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(addr.Without(l.cluster.Store.Shown(who), addresses)) > 0
}

// settle records that, according to the API server, a Service shows these addresses. It frees all
// other addresses of the Service, except those that were chosen for it since that decision.
func (l *allocations) settle(who ipam.Owner, addresses []netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.of(who).waiting; w != nil {
		addresses = slices.Concat(addresses, w.last.Result.Addresses)
	}
	l.keepOnly(who, addresses)
	l.serve()
}

// note holds the addresses of a Service that another controller serves, so that no Service of ours
// gets them: the pools of two controllers may overlap. note returns those that Services of ours
// hold and that it did not return before. news says that it was not known that this controller
// serves the Service.
func (l *allocations) note(r service.Request) (contended []netip.Addr, news bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	news = l.of(owner(r)).foreign != r.Reason
	before := l.cluster.Store.Contended(owner(r))
	l.drop(owner(r))
	l.claim(owner(r), nil)
	l.adopt(r)
	l.keepOnly(owner(r), r.Held)
	l.serve()
	if r.NotAdopted != "" && census.Judged(l.cluster, r, true).Owner == service.Adopted {
		// It shows an address that its last Service was about to give back to a backend.
		l.wake(owner(r))
	}
	return addr.Without(l.cluster.Store.Contended(owner(r)), before), news
}

// holders returns the Services that hold a.
func (l *allocations) holders(a netip.Addr) []ipam.Owner {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cluster.Store.Holders(a)
}

// forget frees what the Service of this name holds, because it is gone. If the Service has
// the UID remaining, it is not gone: then forget does nothing and returns false.
func (l *allocations) forget(who ipam.Owner, remaining types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if remaining != "" && !l.isReplaced(who, remaining) {
		return false
	}
	l.claim(who, nil)
	l.cluster.Store.Forget(who)
	l.drop(who)
	delete(l.services, who)
	l.serve()
	return true
}

// isReplaced reports whether the allocations know another Service, with another UID, by
// this name.
func (l *allocations) isReplaced(who ipam.Owner, uid types.UID) bool {
	known := l.services[who]
	return known != nil && known.uid != "" && known.uid != uid
}
