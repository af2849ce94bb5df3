package announce

import (
	"maps"
	"net/netip"
	"slices"
	"time"
)

// Returns lets local addresses go back from this node to the nodes that should have them, one after the
// other: at once to the node that a Service names, and later to others, if their groups say rebalanceAfter.
// It remembers since when that node could have each address, by the clock of this node. The zero value
// remembers nothing.
type Returns struct {
	waiting map[netip.Addr]better
	// Going is the address that goes now, or the zero value. until is when this node gives up, if it is
	// still the holder.
	Going netip.Addr
	until time.Time
}

// better is a node that could have an address since a time.
type better struct {
	node  string
	since time.Time
}

// returnLimit is how long an address that goes back may take until the other node is in its slot.
// returnPause is the least time until the next try, if no node took it.
const returnLimit, returnPause = 10 * time.Second, time.Minute

// Observe reads the plan at now. It returns when Going may change without an event, or zero.
func (r *Returns) Observe(now time.Time, p Plan) (again time.Time) {
	waiting, due, going := map[netip.Addr]better{}, map[netip.Addr]bool{}, false
	for _, d := range p.Decisions {
		going = going || d.Voluntary && now.Before(r.until)
		if d.Voluntary && !now.Before(r.until) {
			waiting[d.IP], again = better{d.Winner, now.Add(returnPause)}, now // the next pass wants the address again
		}
		if d.Better == "" {
			continue
		}
		b := r.waiting[d.IP]
		if b.node != d.Better {
			b = better{d.Better, now}
		}
		waiting[d.IP] = b
		if at := b.since.Add(d.After); now.Before(at) {
			again = Sooner(again, at)
		} else {
			due[d.IP] = true
		}
	}
	r.waiting = waiting
	if going {
		return Sooner(again, r.until)
	}
	r.Going = netip.Addr{}
	if len(due) > 0 {
		r.Going, r.until = slices.MinFunc(slices.Collect(maps.Keys(due)), netip.Addr.Compare), now.Add(returnLimit)
		return now
	}
	return again
}
