package election

import (
	"slices"
	"sort"
	"time"
)

// losses holds the times at which gossip lost peers, and the number of peers that it still hears.
// This node itself is not counted. The detector finds a large split in steps. Until it knows that a
// peer is heard, the peer is counted as lost.
type losses struct {
	heard   int         // the number of peers that gossip hears now
	lost    []time.Time // sorted
	left    []time.Time // when peers left in an orderly way, sorted
	back    []comeback
	contact time.Time
}

// comeback is the loss and the return of a peer. After a network split, the peers come back one after
// the other. Until gossip has had time to find all of them, a peer that is back proves nothing about a
// loss before its return: this node may have been the one that was cut off.
type comeback struct{ lost, since time.Time }

func lossesOf(e Evidence, now time.Time) losses {
	l := losses{contact: e.Contact}
	for _, g := range e.Gossip {
		switch {
		case g.Node == e.Self:
		case g.State == Alive && !g.Unheard.IsZero():
			l.lost = append(l.lost, g.Unheard)
		case g.State == Alive:
			l.heard++
			if !g.Lost.IsZero() && now.Before(g.Since.Add(Rejoining)) {
				l.back = append(l.back, comeback{g.Lost, g.Since})
			}
		case g.State == Dead:
			l.lost = append(l.lost, g.Since)
		case g.State == Left:
			l.left = append(l.left, g.Since)
		}
	}
	slices.SortFunc(l.lost, time.Time.Compare)
	slices.SortFunc(l.left, time.Time.Compare)
	return l
}

// believed reports whether a node that gossip lost at the time at is certainly gone. This is
// certain if this node was not the one that was cut off: after the losses of that time, it heard
// more nodes, this node included, than were lost. If the two numbers are equal, as in a cluster of
// two nodes, a proof of contact with the API server is also needed.
//
// A peer that was lost later, or left later, is counted as heard.
func (l losses) believed(at time.Time) bool {
	from, to := at.Add(-Together), at.Add(Together)
	back := l.returned(at, from, to)
	lost := since(l.lost, from) - after(l.lost, to) + back
	present := 1 + l.heard - back + after(l.lost, to) + after(l.left, at)
	return present > lost || present == lost && l.contact.After(at)
}

// returned counts the peers that were lost between from and to, and that came back after the time at.
func (l losses) returned(at, from, to time.Time) (n int) {
	for _, c := range l.back {
		if c.since.After(at) && !c.lost.Before(from) && !c.lost.After(to) {
			n++
		}
	}
	return n
}

// NextReturn returns when the next peer that came back counts as heard, or zero if all of them do. Merge
// may then decide otherwise.
func (e Evidence) NextReturn(now time.Time) (next time.Time) {
	for _, c := range lossesOf(e, now).back {
		if end := c.since.Add(Rejoining); next.IsZero() || end.Before(next) {
			next = end
		}
	}
	return next
}

// since counts the times at or after from. times must be sorted.
func since(times []time.Time, from time.Time) int {
	return len(times) - sort.Search(len(times), func(i int) bool { return !times[i].Before(from) })
}

// after counts the times after from. times must be sorted.
func after(times []time.Time, from time.Time) int {
	return len(times) - sort.Search(len(times), func(i int) bool { return times[i].After(from) })
}

// Loss is how many nodes gossip lost together, and when.
type Loss struct {
	// Present is the number of nodes that gossip hears, including this one. Lost is
	// the number of nodes that it lost together with the last one.
	Present, Lost int
	Last          time.Time
}

// LastLoss returns the latest loss. It is the zero Loss if gossip lost none.
func (e Evidence) LastLoss(now time.Time) Loss {
	l := lossesOf(e, now)
	if len(l.lost) == 0 {
		return Loss{}
	}
	last := l.lost[len(l.lost)-1]
	from := last.Add(-2 * Together)
	back := l.returned(last, from, last)
	return Loss{Present: 1 + l.heard - back, Lost: since(l.lost, from) + back, Last: last}
}

// Doubtful reports whether it is unclear which nodes are cut off: the lost nodes or the present
// nodes. Then the nodes of both sides must prove by their Leases that they are alive. A smaller
// loss, such as the restart of an agent, needs no proof.
func (l Loss) Doubtful() bool { return l.Lost > 0 && 2*l.Lost >= l.Present }
