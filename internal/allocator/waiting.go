package allocator

import (
	"net/netip"
	"slices"
	"time"

	"purelb.io/purelb/internal/census"
	"purelb.io/purelb/internal/ipam"
	"purelb.io/purelb/internal/service"
)

// waiter is a Service that has not got all that it wants.
type waiter struct {
	request service.Request
	// since is when this process first chose for the Service and did not give it
	// all that it wants; zero before that.
	since time.Time
	// last is what was chosen for it last.
	last ipam.Choice
	// told is the refusal that was last counted.
	told string
	// needs are the queues that it stands in.
	needs []ipam.Need
	// barred says of each address that it needs which Service keeps it from that
	// address, and how, as of the last choice.
	barred map[netip.Addr]ipam.HeldError
}

// waitQueues are the Services that wait, by what they need. Each queue has the oldest
// Service first.
type waitQueues map[ipam.Need][]*waiter

// join puts w into the queues of needs, and takes it out of all others.
func (q waitQueues) join(w *waiter, needs []ipam.Need) {
	if slices.Equal(w.needs, needs) {
		return
	}
	q.leave(w)
	w.needs = needs
	for _, n := range needs {
		if at, there := slices.BinarySearchFunc(q[n], w, olderWaiter); !there {
			q[n] = slices.Insert(q[n], at, w)
		}
	}
}

// leave takes w out of its queues.
func (q waitQueues) leave(w *waiter) {
	for _, n := range w.needs {
		at, there := slices.BinarySearchFunc(q[n], w, olderWaiter)
		switch {
		case !there:
		case len(q[n]) == 1:
			delete(q, n)
		default:
			q[n] = slices.Delete(q[n], at, at+1)
		}
	}
	w.needs = nil
}

// next returns the oldest Service in the queues of needs that is younger than last,
// and the queue that it stands in. Without last it is the very oldest. It is nil when
// there is none.
func (q waitQueues) next(last *waiter, needs []ipam.Need) (next *waiter, in ipam.Need) {
	for _, n := range needs {
		at := 0
		if last != nil {
			var there bool
			if at, there = slices.BinarySearchFunc(q[n], last, olderWaiter); there {
				at++
			}
		}
		if at < len(q[n]) && (next == nil || olderWaiter(q[n][at], next) < 0) {
			next, in = q[n][at], n
		}
	}
	return next, in
}

// wait keeps the Service of r in mind if choice does not give all that it wants,
// and reports whether a refusal is news.
func (l *allocations) wait(r service.Request, choice ipam.Choice) (news bool) {
	w := l.of(owner(r)).waiting
	l.drop(owner(r))
	if choice.Refusal == nil && len(choice.Needs) == 0 {
		return false
	}
	if w == nil || !w.request.Created.Equal(r.Created) {
		w = &waiter{}
	}
	w.request = r
	if w.since.IsZero() {
		w.since = time.Now()
	}
	l.of(owner(r)).waiting = w
	l.enlist(w, choice)
	said := ""
	if choice.Refusal != nil && !choice.Refusal.Claiming {
		said = choice.Refusal.Message
	}
	news = said != "" && said != w.told
	w.told = said
	return news
}

// drop takes a Service out of all queues.
func (l *allocations) drop(who ipam.Owner) {
	if w := l.of(who).waiting; w != nil {
		l.queues.leave(w)
		l.of(who).waiting = nil
	}
}

// enlist puts w into the queues for what it needs after choice.
func (l *allocations) enlist(w *waiter, choice ipam.Choice) {
	w.last, w.barred = choice, map[netip.Addr]ipam.HeldError{}
	l.queues.join(w, choice.Needs)
	for _, n := range choice.Needs {
		if n.Addr.IsValid() {
			w.barred[n.Addr] = l.cluster.Prospect(n.Addr).Bar(owner(w.request))
		}
	}
}

func olderWaiter(a, b *waiter) int { return census.ByAge(a.request, b.request) }
