package allocator

import (
	"cmp"
	"errors"
	"net/netip"
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
	// topics are the lines that it stands in.
	topics []topic
	// barred is who keeps it from each address that it needs, and how, as of
	// the last choice.
	barred map[netip.Addr]pool.HeldError
}

// wait keeps the Service of r in mind if choice does not give all that it wants,
// and reports whether a refusal is news.
func (l *ledger) wait(r service.Request, choice selection.Choice) (news bool) {
	w := l.waiting[owner(r)]
	l.drop(owner(r))
	if choice.Refusal == nil && len(choice.Needs) == 0 {
		return false
	}
	if w == nil || !w.request.Created.Equal(r.Created) {
		w = &waiter{}
	}
	w.request = r
	l.waiting[owner(r)] = w
	l.enlist(w, choice)
	said := ""
	if choice.Refusal != nil {
		said = choice.Refusal.Message
	}
	news = said != "" && said != w.told
	w.told = said
	return news
}

// drop takes who out of all lines.
func (l *ledger) drop(who pool.Owner) {
	if w := l.waiting[who]; w != nil {
		l.lines.leave(w)
		delete(l.waiting, who)
	}
}

// enlist has w stand in the lines for what it needs after choice.
func (l *ledger) enlist(w *waiter, choice selection.Choice) {
	w.last = choice
	if topics := topicsOf(w.request, choice.Needs); !slices.Equal(topics, w.topics) {
		l.lines.leave(w)
		w.topics = topics
		l.lines.join(w)
	}
	w.barred = nil
	for _, n := range choice.Needs {
		if n.Addr.IsValid() {
			w.bar(n.Addr, l.bar(owner(w.request), n.Addr))
		}
	}
}

func (w *waiter) bar(a netip.Addr, by pool.HeldError) {
	if w.barred == nil {
		w.barred = map[netip.Addr]pool.HeldError{}
	}
	w.barred[a] = by
}

// bar returns who keeps who from a, or from its terms there, and how; it is zero
// when nobody does.
func (l *ledger) bar(who pool.Owner, a netip.Addr) pool.HeldError {
	var held *pool.HeldError
	if errors.As(l.cluster.Refuses(a, who), &held) {
		return *held
	}
	return pool.HeldError{}
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
