package allocate

import (
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
)

// The methods in this file list the requests to backends, and process the answers. The workers of
// package backends exchange both with the backends, so no decision waits for a backend.

// claim records the claims that a Service waits for.
func (l *allocations) claim(who ipam.Owner, claims []ipam.Claim) {
	l.poke(l.cluster.Claims.Want(who, claims)...)
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

// Work implements backends.Ledger.
func (l *allocations) Work(h ipam.Holder) ipam.Work {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cluster.Claims.Work(h)
}

// Answered implements backends.Ledger. It chooses again at once for the Services that wait for the
// claims, so that no other Service gets their grants.
func (l *allocations) Answered(h ipam.Holder, claims []ipam.Claim, answers []ipam.Answer) ipam.Due {
	l.mu.Lock()
	defer l.mu.Unlock()
	wanters, granted, next := l.cluster.Claims.Answered(h, claims, answers, l.cluster.Usable)
	for _, who := range wanters {
		if rec := l.services[who]; rec != nil && rec.waiting != nil {
			l.again(rec.waiting)
		}
		l.wake(who)
	}
	for _, a := range granted {
		l.cluster.Store.Touch(a) // a Service that may share it may wait for it
		l.retry(h.Group, addr.FamilyOf(a))
	}
	l.serve()
	return next
}

// Released implements backends.Ledger. The backend can now grant the released addresses to
// Services that it refused before.
func (l *allocations) Released(h ipam.Holder, grants []ipam.Grant, errs []error) ipam.Due {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := l.cluster.Claims.Released(h, grants, errs)
	for i, g := range grants {
		switch {
		case errs[i] != nil:
			continue
		case g.Address.IsValid():
			l.retry(h.Group, addr.FamilyOf(g.Address))
		default:
			l.retry(h.Group, addr.V4, addr.V6)
		}
		if who := ipam.OwnerOf(g.Key); who != "" {
			l.wake(who) // it may need its finalizer no longer
		}
	}
	return next
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
	for _, a := range known {
		l.cluster.Store.Touch(a, l.cluster.Store.Holders(a)...)
	}
	l.serve()
	l.cluster.Claims.Register(group, missing)
	l.poke(l.cluster.Claims.Pending(group)...)
	return orphans
}
