package allocator

import (
	"net/netip"
	"slices"
	"time"

	"purelb.io/purelb/internal/census"
	"purelb.io/purelb/internal/ipam"
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
	// counted is the message of the refusal that was counted last.
	counted string
	// needs are the queues that contain the waiter.
	needs []ipam.Need
	// barred says, for each address that the waiter needs, which Service blocks the address, and
	// how. The last choice found this.
	barred map[netip.Addr]ipam.HeldError
}

// waitQueues hold the waiting Services, by what they need. In each queue the oldest Service
// comes first.
type waitQueues map[ipam.Need][]*waiter

// join puts w into the queues of needs, and removes it from all others.
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

// leave removes w from its queues.
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

// next finds the oldest Service that is younger than last in the queues of needs. It also returns
// the queue of that Service. If last is nil, next finds the oldest Service of all. It returns nil
// if there is none.
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

// wait puts the Service of r into the queues if choice does not give it all that it asks
// for. It reports whether the refusal is new.
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
	news = said != "" && said != w.counted
	w.counted = said
	return news
}

// drop removes a Service from all queues.
func (l *allocations) drop(who ipam.Owner) {
	if w := l.of(who).waiting; w != nil {
		l.queues.leave(w)
		l.of(who).waiting = nil
	}
}

// enlist puts w into the queues of the addresses that it still needs after choice.
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
