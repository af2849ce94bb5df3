package allocator

import (
	"maps"
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/pool"
	"purelb.io/purelb/internal/selection"
	"purelb.io/purelb/internal/service"
)

// round is what is found out while chances are offered: which are left, which
// free addresses there are, as far as is known, and how often somebody was asked
// about an address only to learn what is in the way now.
type round struct {
	left  chances
	room  map[selection.Need]bool
	hints map[netip.Addr]int
}

// mostHints is how many of those in line learn at once that something else is in
// their way than before, such as another Service. In a long line the others
// learn it when they are looked at for another reason.
const mostHints = 16

// stir notes that a tenant of a has gone, or wants something else there.
func (l *ledger) stir(a netip.Addr) {
	l.offer(topic{need: selection.Need{Addr: a}}, a)
	if l.taken(a) {
		l.stirKey(a)
		return
	}
	if g, p, ok := l.cluster.Config.GroupOf(a); ok && l.handsOut(p, a) {
		l.offer(topic{need: selection.Need{Group: g.Name, Family: addr.FamilyOf(a)}}, a)
	}
}

// stirKey notes that a may be one to share now.
func (l *ledger) stirKey(a netip.Addr) {
	t := topic{key: l.cluster.Book.Key(a)}
	if first, held := l.cluster.Book.Owner(a); held && !l.cluster.Wide(a) {
		t.namespace = first.Namespace()
	}
	l.offer(t, a)
}

// handsOut reports whether p gives a to those who ask for no address by name.
func (l *ledger) handsOut(p pool.Pool, a netip.Addr) bool {
	_, blocked := l.cluster.Book.Blocked(a)
	return !p.Draining && !blocked && slices.ContainsFunc(p.Usable(), func(r addr.Range) bool { return r.Contains(a) })
}

// serveAll chooses anew for all who wait, the oldest first.
func (l *ledger) serveAll() {
	if !l.isOpen() {
		return
	}
	var changed []pool.Owner
	for _, w := range slices.SortedFunc(maps.Values(l.waiting), olderWaiter) {
		if l.again(w) {
			changed = append(changed, owner(w.request))
		}
	}
	l.wake(changed...)
	l.serve()
}

// serve offers what has come free to those who wait for it, the oldest first,
// and only as long as there is something left of it. No newcomer comes before
// them, because everybody who makes something free has it served at once.
func (l *ledger) serve() {
	if !l.isOpen() {
		l.chances = nil
	}
	r := &round{room: map[selection.Need]bool{}, hints: map[netip.Addr]int{}}
	var changed []pool.Owner
	for c, w := l.next(r); w != nil; c, w = l.next(r) {
		if l.hopeful(w, c, r) && l.again(w) {
			changed = append(changed, owner(w.request))
			clear(r.room)
		}
	}
	l.wake(changed...)
}

func (l *ledger) taken(a netip.Addr) bool {
	_, held := l.cluster.Book.Owner(a)
	return held
}

// again chooses anew for w, holds what was chosen, and reports whether that is
// something else than before.
func (l *ledger) again(w *waiter) bool {
	choice := l.choose(w.request)
	if err := l.hold(owner(w.request), choice); err != nil {
		return true // The Service is looked at, and its loop finds the same.
	}
	differs := !same(choice, w.last)
	l.enlist(w, choice)
	return differs
}

// hopeful reports whether c may change anything for w, as far as that can be
// told without choosing.
func (l *ledger) hopeful(w *waiter, c *chance, r *round) bool {
	who := owner(w.request)
	if c.topic.need.Group != "" {
		return (w.request.Reevaluate || !l.hasOneOf(w, c.addr)) && l.complete(w, c.topic.need.Family, r)
	}
	was, is := w.barred[c.addr], l.bar(who, c.addr)
	switch {
	case is.Reason == "":
		return true
	case was == is, c.topic.key != "" && is.Reason != pool.HeldByPort:
		return false
	case is.Reason == pool.HeldByPort, is.Reason == was.Reason:
		r.hints[c.addr]++
		return r.hints[c.addr] <= mostHints
	}
	return true
}

// hasOneOf reports whether w is to have an address of the same pool as a: unless
// that is to be replaced, it is from another pool that it misses one.
func (l *ledger) hasOneOf(w *waiter, a netip.Addr) bool {
	_, p, _ := l.cluster.Config.GroupOf(a)
	return slices.ContainsFunc(w.last.Result.Addresses, p.Contains)
}

// complete reports whether w can have something of the other families too that
// it needs, if it is all or nothing for it.
func (l *ledger) complete(w *waiter, f addr.Family, r *round) bool {
	if w.request.Policy != service.All || len(l.cluster.Book.Held(owner(w.request))) > 0 {
		return true
	}
	return !slices.ContainsFunc(w.request.Families, func(other addr.Family) bool {
		var needs, has bool
		for _, n := range w.last.Needs {
			if n.Group != "" && n.Family == other && other != f {
				needs, has = true, has || l.hasRoom(n, r)
			}
		}
		return needs && !has
	})
}

// hasRoom reports whether there is a free address of the kind that n is for.
func (l *ledger) hasRoom(n selection.Need, r *round) bool {
	has, known := r.room[n]
	if !known {
		g, _ := l.cluster.Config.Group(n.Group)
		has = slices.ContainsFunc(g.Pools, func(p pool.Pool) bool {
			_, free := l.cluster.Book.Next(p)
			return free && p.Family() == n.Family
		})
		r.room[n] = has
	}
	return has
}
