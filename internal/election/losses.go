package election

import (
	"slices"
	"sort"
	"time"
)

// losses are the peers that gossip lost, and when, beside those that it did not
// lose. This node itself is not among them. A large split is found in steps. So the peers
// of which it is not known whether they are heard count as lost until that is known.
type losses struct {
	heard   int         // who is heard now
	lost    []time.Time // sorted
	left    []time.Time // when others said goodbye, sorted
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

// believed says whether a node that gossip lost at at is gone for certain,
// because we are not the one that was cut off then: with this node, more were
// heard after the losses of that time than were lost. Half of all is enough with
// a proof of contact with the API server, as when two nodes are all.
//
// Those who were lost, or said goodbye, later than that were heard.
func (l losses) believed(at time.Time) bool {
	from, to := at.Add(-Together), at.Add(Together)
	lost := since(l.lost, from) - after(l.lost, to)
	present := 1 + l.heard + after(l.lost, to) + after(l.left, at)
	return present > lost || present == lost && l.contact.After(at)
}

// since counts which of times, which are sorted, are at or after from.
func since(times []time.Time, from time.Time) int {
	return len(times) - sort.Search(len(times), func(i int) bool { return !times[i].Before(from) })
}

// after counts which of times, which are sorted, are after from.
func after(times []time.Time, from time.Time) int {
	return len(times) - sort.Search(len(times), func(i int) bool { return times[i].After(from) })
}

// Loss is how many nodes gossip lost together, and the last time.
type Loss struct {
	// Present are the nodes that are heard, this one included, and Lost those
	// that were lost together with the last one.
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

// Doubtful says that it is not clear whether the lost nodes or those present are
// cut off. So the nodes of both sides have to show by their Leases that they live.
// A smaller loss needs no proof. Each restart of an agent is one.
func (l Loss) Doubtful() bool { return l.Lost > 0 && 2*l.Lost >= l.Present }

// Unnoticed says that the lost nodes, if they live, are so many that their own loss
// is not Doubtful.
func (l Loss) Unnoticed() bool {
	return l.Lost > 0 && !Loss{Present: l.Lost, Lost: l.Present}.Doubtful()
}
