package peering

import (
	"net/netip"
	"slices"
	"time"
)

// Pauses between changes of weights. A rollout changes the number of endpoints many times, and
// routers that suppress unstable routes (RFC 2439) count every change.
const (
	// weightQuiet is how long a new number of endpoints must stay before it is announced.
	weightQuiet = 2 * time.Second
	// weightPatience is how long a number that keeps changing stays unannounced.
	weightPatience = 10 * time.Second
	// weightPause is the shortest time between two changes. It doubles with each change, up to
	// weightPauseMax. After weightCalm without a change it is weightPause again.
	weightPause    = 5 * time.Second
	weightPauseMax = time.Minute
	weightCalm     = 5 * time.Minute
)

// Weights holds the weights that addresses are announced with. They follow the number of
// ready endpoints with delays, so that routes stay stable while endpoints are replaced.
type Weights struct{ of map[netip.Addr]*weight }

// weight is the weight of one address.
type weight struct {
	announced uint32
	// last is when announced last changed. pause is how long it must stay after that.
	last  time.Time
	pause time.Duration
	// wanted is the last number of endpoints. changed is when wanted last changed. since is when
	// wanted began to differ from announced, or zero if they are equal.
	wanted         uint32
	changed, since time.Time
}

// Restore sets the weights that an earlier process announced.
func (w *Weights) Restore(all map[netip.Addr]uint32) {
	w.of = map[netip.Addr]*weight{}
	for ip, n := range all {
		w.of[ip] = &weight{announced: n, wanted: n}
	}
}

// All returns the weights that are announced, or nil if there are none.
func (w *Weights) All() map[netip.Addr]uint32 {
	var all map[netip.Addr]uint32
	for ip, known := range w.of {
		if known.announced > 0 {
			if all == nil {
				all = map[netip.Addr]uint32{}
			}
			all[ip] = known.announced
		}
	}
	return all
}

// Observe processes the number of ready endpoints of each address that gets a weight. It returns
// the sorted addresses whose weight changed. It also returns when to call Observe again even if no
// event comes. A zero time means never.
//
// The first number takes effect at once, and so does the removal of a weight. Without ready
// endpoints the weight stays: the address is about to leave this node.
func (w *Weights) Observe(now time.Time, endpoints map[netip.Addr]uint32) (changed []netip.Addr, again time.Time) {
	if w.of == nil {
		w.of = map[netip.Addr]*weight{}
	}
	for ip, known := range w.of {
		if _, stays := endpoints[ip]; !stays {
			delete(w.of, ip)
			if known.announced > 0 {
				changed = append(changed, ip)
			}
		}
	}
	for ip, n := range endpoints {
		known := w.of[ip]
		if known == nil {
			known = &weight{}
			w.of[ip] = known
		}
		news, due := known.observe(now, n)
		if news {
			changed = append(changed, ip)
		}
		if !due.IsZero() && (again.IsZero() || due.Before(again)) {
			again = due
		}
	}
	slices.SortFunc(changed, netip.Addr.Compare)
	return changed, again
}

// observe processes a number of endpoints. changed says that the announced weight changed. due is
// when it will change.
func (w *weight) observe(now time.Time, n uint32) (changed bool, due time.Time) {
	before := w.wanted
	if n != w.wanted {
		w.wanted, w.changed = n, now
	}
	if n == 0 || n == w.announced {
		w.since = time.Time{}
		return false, time.Time{}
	}
	if w.since.IsZero() {
		w.since = now
	}
	if before > 0 && w.announced > 0 {
		if due = w.due(); now.Before(due) {
			return false, due
		}
	}
	w.pause = min(2*w.pause, weightPauseMax)
	if w.pause == 0 || now.Sub(w.last) >= weightCalm {
		w.pause = weightPause
	}
	w.announced, w.last, w.since = n, now, time.Time{}
	return true, time.Time{}
}

// due returns when to announce the wanted weight.
func (w *weight) due() time.Time {
	due := w.changed.Add(weightQuiet)
	if late := w.since.Add(weightPatience); late.Before(due) {
		due = late
	}
	if !w.last.IsZero() {
		if earliest := w.last.Add(w.pause); due.Before(earliest) {
			due = earliest
		}
	}
	return due
}
