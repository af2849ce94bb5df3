package allocator

import (
	"cmp"
	"maps"
	"slices"

	"purelb.io/purelb/internal/pool"
	"purelb.io/purelb/internal/selection"
	"purelb.io/purelb/internal/service"
)

// waiter is a Service that has not got all that it wants.
type waiter struct {
	request service.Request
	// last is what was chosen for it last.
	last selection.Choice
	// told is the refusal that was last counted.
	told string
}

// wait keeps the Service of r in mind if choice refuses something, and reports
// whether that is news.
func (l *ledger) wait(r service.Request, choice selection.Choice) bool {
	if choice.Refusal == nil {
		delete(l.waiting, owner(r))
		return false
	}
	w := l.waiting[owner(r)]
	if w == nil {
		w = &waiter{}
		l.waiting[owner(r)] = w
	}
	w.request, w.last = r, choice
	news := w.told != choice.Refusal.Message
	w.told = choice.Refusal.Message
	return news
}

// serve chooses anew for all who wait, the oldest first, holds what it chose,
// and wakes those for whom something has changed. It is called whenever an
// address has become free or the surroundings have changed, so that no newcomer
// comes before those who wait.
func (l *ledger) serve() {
	if !l.isOpen() {
		return
	}
	var changed []pool.Owner
	for _, w := range slices.SortedFunc(maps.Values(l.waiting), olderWaiter) {
		choice := l.cluster.Choose(w.request)
		if same(choice, w.last) {
			continue
		}
		w.last = choice
		l.hold(w.request, choice)
		changed = append(changed, owner(w.request))
	}
	l.wake(changed...)
}

// same reports whether two choices look the same on a Service.
func same(a, b selection.Choice) bool {
	return slices.Equal(a.Result.Addresses, b.Result.Addresses) && a.ClusterPolicy == b.ClusterPolicy &&
		a.Result.Reason == b.Result.Reason && a.Result.Message == b.Result.Message
}

func olderWaiter(a, b *waiter) int { return byAge(a.request, b.request) }

// byAge orders Services by their creation, and by name where that is the same
// second.
func byAge(a, b service.Request) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Key(), b.Key()))
}
