package election

import (
	"slices"
	"time"
)

// Liveness decides which members are alive. It knows when this node last saw their
// Leases change, by its own clock. It is not safe for concurrent use.
//
// All times are from this node's clock, with its monotonic reading. The clocks of
// other machines do not matter.
//
// A Lease without a renewal counts against its holder only up to our last proof of contact with the
// API server: after that proof, we might have missed a renewal. After an interruption of contact,
// the time starts again, because the holder may have been unable to renew, too. So while this node
// is cut off, it declares no node dead. After that, every holder gets the full time to renew.
type Liveness struct {
	tolerance time.Duration
	seen      map[string]seen
	contact   time.Time // when the latest proof of contact was
	lost      time.Time // when contact was last reported lost
}

// seen is what this node saw of one Lease.
type seen struct {
	version  string
	duration time.Duration
	since    time.Time // the start of the time without a renewal
	renewed  time.Time // when it was last seen to change
}

// NewLiveness returns a Liveness that has seen no Lease and had no contact yet.
//
// Contact counts as interrupted after more than tolerance without a proof. A
// renewal that is late by tolerance must still be in time. So tolerance and the
// renewal interval together must be less than the duration of a Lease.
func NewLiveness(tolerance time.Duration) *Liveness {
	return &Liveness{tolerance: tolerance, seen: map[string]seen{}}
}

// Observe notes the present Lease of node, whether it has changed or not. Its
// holder counts as alive for duration after its version changes or is first seen.
// version must be something that only the holder changes, and that each renewal
// changes, such as the text of renewTime. resourceVersion is unsuitable, because
// any client's edit changes it.
func (l *Liveness) Observe(node, version string, duration time.Duration, now time.Time) {
	s, ok := l.seen[node]
	if !ok || s.version != version {
		s.since = now
		if ok && !l.interrupted(now) {
			s.renewed = now
		}
	}
	s.version, s.duration = version, duration
	l.seen[node] = s
}

// Renewed returns when this node last saw the holder renew its Lease. It is zero if
// this node never saw a renewal. A difference after an interruption of contact does
// not count, because the holder may have renewed and then died.
func (l *Liveness) Renewed(node string) time.Time { return l.seen[node].renewed }

// Forget notes that the Lease of node is gone, because its agent has left in order.
func (l *Liveness) Forget(node string) { delete(l.seen, node) }

// Contact notes a proof that every change of a Lease before at was observed. Such a
// proof is a list that was requested at at, or our own renewal of at that the watch
// has returned.
func (l *Liveness) Contact(at time.Time) {
	if !at.After(l.contact) {
		return
	}
	if l.interrupted(at) {
		for node, s := range l.seen {
			if l.alive(s) && s.since.Before(at) {
				s.since = at
				l.seen[node] = s
			}
		}
	}
	l.contact = at
}

// LostContact notes that the API server could not be reached at now. Without this
// call, Liveness notices it after the tolerance.
func (l *Liveness) LostContact(now time.Time) { l.lost = now }

// interrupted reports whether contact was lost between the last proof and at, when
// there is contact again.
func (l *Liveness) interrupted(at time.Time) bool {
	return !l.contact.After(l.lost) || at.Sub(l.contact) > l.tolerance
}

// Live returns the members that are alive, sorted. trusted says that there is
// contact with the API server. Without contact, a missing member proves nothing.
func (l *Liveness) Live(now time.Time) (nodes []string, trusted bool) {
	for node, s := range l.seen {
		if l.alive(s) {
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	return nodes, l.contact.After(l.lost) && now.Sub(l.contact) <= l.tolerance
}

// Next returns the earliest time at which the Lease of a live member expires. ok is
// false if no member is alive. A proof of contact at that time finds the dead as
// early as possible.
func (l *Liveness) Next() (at time.Time, ok bool) {
	for _, s := range l.seen {
		if end := s.end(); l.alive(s) && (!ok || end.Before(at)) {
			at, ok = end, true
		}
	}
	return at, ok
}

func (l *Liveness) alive(s seen) bool { return l.contact.Before(s.end()) }

// end returns when the Lease of s expires without a renewal.
func (s seen) end() time.Time { return s.since.Add(s.duration) }
