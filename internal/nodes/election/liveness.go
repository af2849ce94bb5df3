package election

import (
	"slices"
	"time"
)

// Liveness decides which members are alive. For each Lease, it records when this node last saw the
// Lease change. It is not safe for concurrent use.
//
// All times are from this node's clock, with its monotonic reading. The clocks of
// other machines do not matter.
//
// Time without a renewal counts only up to our last proof of contact with the API server. After
// that proof, this node may have missed a renewal. An interruption of contact starts the time
// again, because the holder may have been unable to renew, too. So a node that is cut off declares
// no node dead. After the interruption, every holder gets the full time to renew.
type Liveness struct {
	tolerance time.Duration
	seen      map[string]seen
	contact   time.Time // the time of the latest proof of contact
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
// Contact is interrupted if there is no proof for longer than tolerance. A Lease must not expire if
// its renewal is late by tolerance. So the sum of tolerance and the renewal interval must be less
// than the duration of a Lease.
func NewLiveness(tolerance time.Duration) *Liveness {
	return &Liveness{tolerance: tolerance, seen: map[string]seen{}}
}

// Observe records the present Lease of node, changed or not. The holder is alive for duration after
// version changes or is first seen. version must change with each renewal, and only the holder may
// change it. The text of renewTime is suitable. resourceVersion is not, because any client's edit
// changes it.
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

// Renewed returns when this node last saw the holder renew its Lease. It is zero if this node never
// saw a renewal. A change found after an interruption of contact is no renewal here, because the
// holder may have renewed and then died.
func (l *Liveness) Renewed(node string) time.Time { return l.seen[node].renewed }

// Forget records that the Lease of node is gone because its agent left in an orderly way.
func (l *Liveness) Forget(node string) { delete(l.seen, node) }

// Contact records a proof that this node has observed every change of a Lease before the time at.
// The proof is a list that was requested at that time, or our own renewal of that time that the
// watch has returned.
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

// LostContact records that the API server could not be reached at the time now. Without this call,
// Liveness notices the loss after the tolerance.
func (l *Liveness) LostContact(now time.Time) { l.lost = now }

// interrupted reports whether contact was lost between the last proof and the new proof at the time
// at.
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

// Next returns the earliest time at which the Lease of a live member expires. ok is false if no
// member is alive. A proof of contact at that time detects a dead member as early as possible.
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
