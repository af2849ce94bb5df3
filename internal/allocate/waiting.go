package allocate

import (
	"slices"
	"time"

	"purelb.io/purelb/internal/allocate/census"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/service"
)

// waiter is a Service that does not have all that it asks for.
type waiter struct {
	request service.Request
	// since is when a choice of this process first failed to give the Service all that it
	// asks for. It is zero before that.
	since time.Time
	// last is the last choice for the Service.
	last ipam.Choice
}

// wait notes that the Service of r waits if choice does not give it all that it asks for.
func (l *allocations) wait(r service.Request, choice ipam.Choice) {
	w := l.of(owner(r)).waiting
	l.drop(owner(r))
	if choice.Refusal == nil && len(choice.Needs) == 0 {
		return
	}
	if w == nil || !w.request.Created.Equal(r.Created) {
		w = &waiter{}
	}
	w.request, w.last = r, choice
	if w.since.IsZero() {
		w.since = time.Now()
	}
	l.enlist(w)
}

// enlist adds w to the waiting Services.
func (l *allocations) enlist(w *waiter) {
	l.of(owner(w.request)).waiting = w
	at, _ := slices.BinarySearchFunc(l.waiters, w, olderWaiter)
	l.waiters = slices.Insert(l.waiters, at, w)
}

// drop notes that a Service does not wait.
func (l *allocations) drop(who ipam.Owner) {
	if w := l.of(who).waiting; w != nil {
		at, _ := slices.BinarySearchFunc(l.waiters, w, olderWaiter)
		l.waiters = slices.Delete(l.waiters, at, at+1)
		l.of(who).waiting = nil
	}
}

func olderWaiter(a, b *waiter) int { return census.ByAge(a.request, b.request) }
