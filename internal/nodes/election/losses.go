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
	contact time.Time
}

func lossesOf(e Evidence) losses {
	l := losses{contact: e.Contact}
	for _, g := range e.Gossip {
		switch {
		case g.Node == e.Self:
		case g.State == Alive && !g.Unheard.IsZero():
			l.lost = append(l.lost, g.Unheard)
		case g.State == Alive:
			l.heard++
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
	lost := since(l.lost, from) - after(l.lost, to)
	present := 1 + l.heard + after(l.lost, to) + after(l.left, at)
	return present > lost || present == lost && l.contact.After(at)
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
func (e Evidence) LastLoss() Loss {
	l := lossesOf(e)
	if len(l.lost) == 0 {
		return Loss{}
	}
	last := l.lost[len(l.lost)-1]
	return Loss{Present: 1 + l.heard, Lost: since(l.lost, last.Add(-2*Together)), Last: last}
}

// Doubtful reports whether it is unclear which nodes are cut off: the lost nodes or the present
// nodes. Then the nodes of both sides must prove by their Leases that they are alive. A smaller
// loss, such as the restart of an agent, needs no proof.
func (l Loss) Doubtful() bool { return l.Lost > 0 && 2*l.Lost >= l.Present }

// Unnoticed reports whether the lost nodes are too many to notice the split: if they are alive, the
// loss is not Doubtful on their side.
func (l Loss) Unnoticed() bool {
	return l.Lost > 0 && !Loss{Present: l.Lost, Lost: l.Present}.Doubtful()
}
