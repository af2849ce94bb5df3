package allocate

import (
	"net/netip"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/census"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/service"
)

// allocations decide which Service has which address. They make one decision at a time, while the
// writes of earlier decisions run in parallel.
//
// The store holds a chosen address at once, before the write. So the status of a Service may lag
// behind the store, but the store never lags behind the status. The store frees an address only
// after the API server has confirmed that the Service no longer shows it. So a failed write, or a
// write with an unknown outcome, changes nothing: the store still holds the chosen address, and the
// next decision for the same Service chooses it again.
type allocations struct {
	// wake queues Services for the loop. The allocations call it while they are locked, so it must
	// not call them.
	wake func(...ipam.Owner)
	// poke tells the workers of backends that holders have work for them. The rule of wake applies
	// here too.
	poke func(...ipam.Holder)

	// opened is closed once the store is complete.
	opened chan struct{}

	mu sync.Mutex
	// cluster holds the store, and the part of the clusterState that a choice depends on.
	cluster ipam.Cluster
	// services has a record of each Service. The store has the addresses of the Services.
	services map[ipam.Owner]*record
	// waiters are the waiting Services, the oldest first.
	waiters []*waiter
	// choices counts the choices that were made. Tests measure the cost of work with it, not with
	// time.
	choices int
}

// record is the state of a Service, except for its addresses.
type record struct {
	// uid distinguishes the Service from earlier ones of the same name.
	uid types.UID
	// foreign is the reason why another controller serves the Service, or "" if the Service
	// is ours. The store holds the addresses of that Service, so that no Service of ours
	// gets them.
	foreign string
	// departs says that the Service is being deleted, and that its backends were told to release
	// everything.
	departs bool
	// waiting is the Service among the waiters. It is nil if the Service has all that it wants.
	waiting *waiter
}

func newAllocations(wake func(...ipam.Owner)) *allocations {
	store := ipam.NewStore()
	return &allocations{
		wake:     wake,
		poke:     func(...ipam.Holder) {},
		opened:   make(chan struct{}),
		cluster:  ipam.Cluster{Store: store, Claims: ipam.NewClaims(store)},
		services: map[ipam.Owner]*record{},
	}
}

// of returns the record of a Service. It makes a new record if there is none.
func (l *allocations) of(who ipam.Owner) *record {
	rec := l.services[who]
	if rec == nil {
		rec = &record{}
		l.services[who] = rec
	}
	return rec
}

// open starts with all existing Services. Services with addresses keep them. Services that
// lack addresses get them in the order in which they were created. The state of the cluster
// must be known.
func (l *allocations) open(requests []service.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range census.Open(l.cluster, requests) {
		l.enroll(r)
		if r.Owner != service.Anothers {
			l.enlist(&waiter{request: r})
		}
	}
	l.cluster.Store.Touched() // all of it, and the loop begins with all Services
	close(l.opened)
	l.serveAll()
}

// isOpen reports whether open was called.
func (l *allocations) isOpen() bool {
	select {
	case <-l.opened:
		return true
	default:
		return false
	}
}

// change stores a new state of the cluster, and serves the waiting Services for which it
// makes an allocation possible.
func (l *allocations) change(s clusterState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.isOpen() && s.cluster != "" { // the keys of claims have the name
		l.cluster.Claims.SetCluster(s.cluster)
	}
	l.cluster.Groups, l.cluster.Subnets, l.cluster.Boundaries = s.Config.Groups, s.Subnets, s.Boundaries
	l.cluster.Store.SetBlocked(s.Blocked)
	l.cluster.Store.SetNetworks(s.Networks)
	l.serveAll()
}

// standing says which controller serves a Service, and what the allocations know of the Service.
type standing int

const (
	// ours is a Service that PureLB serves.
	ours standing = iota
	// replaced is a Service that has taken the name of an older one. The older Service
	// still holds its addresses.
	replaced
	// foreignService is a Service of another controller.
	foreignService
	// formerlyForeign is a Service that PureLB must serve now. The allocations still record that
	// another controller serves it.
	formerlyForeign
)

// consider returns the request of a Service as the allocations see it, and the Service's standing. If
// the Service is ours, it also decides.
func (l *allocations) consider(r service.Request) (service.Request, standing, decision, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, standing := l.identify(r)
	if standing != ours {
		return r, standing, decision{}, nil
	}
	d, err := l.decideLocked(r)
	return r, standing, d, err
}

// identify returns the request of a Service as the allocations see it, and the Service's
// standing. The caller holds the lock.
func (l *allocations) identify(r service.Request) (service.Request, standing) {
	who := owner(r)
	if l.isReplaced(who, r.UID) {
		return r, replaced
	}
	wasForeign := l.of(who).foreign != ""
	switch r = census.Judged(l.cluster, r, l.isKnown(who) && !wasForeign); {
	case r.Owner == service.Anothers:
		return r, foreignService
	case wasForeign:
		return r, formerlyForeign
	}
	return r, ours
}

// decision is the outcome for one Service.
type decision struct {
	ipam.Choice
	// ended are addresses that the Service holds and shows, and that it must give up.
	ended []netip.Addr
	// since is when the Service began to wait for something. Without a wait, it is zero.
	since time.Time
	// bind says that the Service needs service.Finalizer, and unbind that it needs it no longer.
	bind, unbind bool
}

// decide chooses for the Service of r, which is ours, and makes the store hold the chosen
// addresses.
func (l *allocations) decide(r service.Request) (decision, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.decideLocked(r)
}

// decideLocked is decide for a caller that holds the lock.
func (l *allocations) decideLocked(r service.Request) (decision, error) {
	l.cluster.Store.Age(time.Now())
	l.of(owner(r)).departs = false
	r.Held = l.shown(r)
	d := decision{Choice: l.choose(r)}
	if err := l.hold(owner(r), d.Choice); err != nil {
		return decision{}, err
	}
	d.ended = addr.Without(r.Held, d.Result.Addresses)
	l.claim(owner(r), l.claims(r, d.Choice))
	d.bind, d.unbind = l.bound(r, d.Choice)
	l.wait(r, d.Choice)
	if w := l.of(owner(r)).waiting; w != nil {
		d.since = w.since
	}
	l.serve()
	return d, nil
}

// choose chooses for the Service of r, and changes nothing.
func (l *allocations) choose(r service.Request) ipam.Choice {
	l.choices++
	return l.cluster.Choose(r)
}

func owner(r service.Request) ipam.Owner { return ipam.Owner(r.Key()) }
