package peering

import (
	"net/netip"
	"time"
)

// Pauses before changes of weights. A rollout changes the number of endpoints many times, and each change makes
// routers choose anew for some connections.
const (
	// weightQuiet is how long a new number of endpoints must stay before it is announced.
	weightQuiet = 2 * time.Second
	// weightPatience is how long a number that keeps changing stays unannounced.
	weightPatience = 10 * time.Second
)

// Weights holds the numbers of ready endpoints that differ from the weights of their addresses.
type Weights map[netip.Addr]waitingWeight

// waitingWeight is a number of endpoints that is not announced.
type waitingWeight struct {
	endpoints uint32
	// changed is when endpoints last changed, and since when it began to differ from the weight.
	changed, since time.Time
}

// due returns when to announce the number.
func (w waitingWeight) due() time.Time {
	if quiet := w.changed.Add(weightQuiet); quiet.Before(w.since.Add(weightPatience)) {
		return quiet
	}
	return w.since.Add(weightPatience)
}

// Observe returns the weights to announce instead of announced, by the number of ready endpoints of each address
// that gets a weight, or nil if there are none. It also returns when to call Observe again even if no
// event comes. A zero time means never.
//
// The first number takes effect at once, and so does the removal of a weight. Without ready
// endpoints the weight stays: the address is about to leave this node.
func (ws Weights) Observe(now time.Time, announced, endpoints map[netip.Addr]uint32) (next map[netip.Addr]uint32, again time.Time) {
	for ip := range ws {
		if _, stays := endpoints[ip]; !stays {
			delete(ws, ip)
		}
	}
	for ip, n := range endpoints {
		weight, due := ws.observe(now, ip, announced[ip], n)
		if weight > 0 {
			if next == nil {
				next = make(map[netip.Addr]uint32, len(endpoints))
			}
			next[ip] = weight
		}
		if !due.IsZero() && (again.IsZero() || due.Before(again)) {
			again = due
		}
	}
	return next, again
}

// observe returns the weight of an address, and when it will change.
func (ws Weights) observe(now time.Time, ip netip.Addr, announced, n uint32) (weight uint32, due time.Time) {
	w, waits := ws[ip]
	if n == announced || announced == 0 || waits && w.endpoints == 0 && n > 0 {
		delete(ws, ip)
		return n, time.Time{}
	}
	if !waits {
		w.since = now
	}
	if !waits || w.endpoints != n {
		w.endpoints, w.changed = n, now
	}
	ws[ip] = w
	switch due = w.due(); {
	case n == 0:
		return announced, time.Time{}
	case now.Before(due):
		return announced, due
	}
	delete(ws, ip)
	return n, time.Time{}
}
