package gossip

import (
	"cmp"
	"net/netip"
	"slices"
)

const (
	// watchers is how many of the others notice when a process falls silent:
	// three, so that it is noticed even if two of them die with it.
	watchers = 3
	// reach is how many are met at most, watchers and those believed gone. If
	// most of a large cluster is gone, the library has to find the rest: all
	// those who are left would else be busy with all those who are not.
	reach = 4 * watchers
)

// seat is the place of a process in the circle.
type seat struct {
	mark    mark
	id      identity
	address netip.AddrPort
	// version is what it is spoken to in.
	version byte
	// there says that it is believed to live.
	there bool
}

// circle returns who beats, and so is watched.
func (t *table) circle() circle {
	var seats []seat
	for _, all := range t.processes {
		for _, p := range all {
			if p.beats && p.version > 0 && !p.leaving && !p.gone {
				seats = append(seats, seat{p.mark, p.id, p.address, p.version, p.state() == Alive})
			}
		}
	}
	return newCircle(seats)
}

// circle is the processes in an order that all share and that follows no rack and
// no time of starting: by their marks. Each is watched by the next ones. Those that
// are believed gone do not count, but have their watchers too: if they are not gone,
// that is how it is noticed.
type circle []seat

func newCircle(seats []seat) circle {
	slices.SortFunc(seats, func(a, b seat) int { return cmp.Compare(a.mark, b.mark) })
	return seats
}

// watching returns who watches self.
func (c circle) watching(self mark) []seat { return c.walk(self, 1) }

// watched returns whom self watches.
func (c circle) watched(self mark) []seat { return c.walk(self, -1) }

// place returns where self sits.
func (c circle) place(self mark) (at int, seated bool) {
	return slices.BinarySearchFunc(c, self, func(s seat, m mark) int { return cmp.Compare(s.mark, m) })
}

// walk goes round from self until it has met as many as watch, or gone too far, and
// returns all that it has met.
func (c circle) walk(self mark, step int) (met []seat) {
	at, seated := c.place(self)
	if !seated {
		return nil
	}
	for there, n := 0, 1; n < len(c) && n <= reach && there < watchers; n++ {
		next := c[((at+n*step)%len(c)+len(c))%len(c)]
		met = append(met, next)
		if next.there {
			there++
		}
	}
	return met
}
