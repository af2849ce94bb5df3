package allocator

import (
	"container/heap"
	"net/netip"
	"slices"
)

// chance is an address about which something has changed, for the line of those
// to whom that may be of use.
type chance struct {
	topic topic
	addr  netip.Addr
	// next is who is asked next.
	next *waiter
}

// chances are what is being offered, as a heap: the first is for the oldest.
type chances []*chance

// Len implements heap.Interface.
func (c chances) Len() int { return len(c) }

// Less implements heap.Interface.
func (c chances) Less(i, j int) bool { return olderWaiter(c[i].next, c[j].next) < 0 }

// Swap implements heap.Interface.
func (c chances) Swap(i, j int) { c[i], c[j] = c[j], c[i] }

// Push implements heap.Interface.
func (c *chances) Push(x any) { *c = append(*c, x.(*chance)) }

// Pop implements heap.Interface.
func (c *chances) Pop() any {
	last := len(*c) - 1
	x := (*c)[last]
	*c = (*c)[:last]
	return x
}

// offer remembers that a is to be offered to the line of t, if there is any.
func (l *ledger) offer(t topic, a netip.Addr) {
	if len(l.lines[t]) > 0 {
		l.chances = append(l.chances, &chance{topic: t, addr: a})
	}
}

// next returns the oldest of those to whom something is still to be offered, and
// the chance that is for it; nil when there is nobody.
func (l *ledger) next(r *round) (*chance, *waiter) {
	for _, c := range l.chances {
		if c.next = l.lines.after(c.topic, nil); c.next != nil {
			heap.Push(&r.left, c)
		}
	}
	l.chances = nil
	for len(r.left) > 0 {
		c, w := r.left[0], r.left[0].next
		l.offers++
		l.advance(r, c)
		// Who has left the line meanwhile has been asked about everything.
		if slices.Contains(w.topics, c.topic) && !l.spent(c) {
			return c, w
		}
	}
	return nil, nil
}

// advance has c, the first that is left, be for the next in its line.
func (l *ledger) advance(r *round, c *chance) {
	if c.next = l.lines.after(c.topic, c.next); c.next == nil || l.spent(c) {
		heap.Pop(&r.left)
		return
	}
	heap.Fix(&r.left, 0)
}

// spent reports whether there is nothing left of c: the address was to be free,
// and is taken.
func (l *ledger) spent(c *chance) bool { return c.topic.need.Group != "" && l.taken(c.addr) }
