package election

import (
	"slices"
	"sort"
	"time"
)

// losses are the peers that gossip lost, and when, beside those that it did not
// lose. This node itself is not among them.
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
