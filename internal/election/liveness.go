package election

import (
	"slices"
	"time"
)

// Liveness decides which members are alive from when this node last saw their
// Leases change, by its own clock. It is not safe for concurrent use.
//
// Times are all of one clock: this node's, with its monotonic reading. What
// other machines think the time is plays no part.
//
// The silence of a Lease counts against its holder only up to our last proof of
// contact with the API server, because we would not know of a renewal after
// that; and it counts anew from the end of an interruption of contact, because
// the holder may have been unable to renew too. So while we are cut off nobody
// dies, and afterwards everybody gets the time to be heard of.
type Liveness struct {
	tolerance time.Duration
	seen      map[string]seen
	contact   time.Time // the latest proof of contact
	lost      time.Time // when contact was last said to be lost
}

// seen is what was seen of one Lease.
type seen struct {
	version  string
	duration time.Duration
	since    time.Time // from when its silence counts
	renewed  time.Time // when it was last seen to change
}

// NewLiveness returns a Liveness that has seen nothing and had no contact yet.
//
// Contact counts as interrupted when there is no proof of it for longer than
// tolerance. A renewal that comes late by as much as that must still be in
// time, so tolerance and the interval of renewals together are less than the
// duration of a Lease.
func NewLiveness(tolerance time.Duration) *Liveness {
	return &Liveness{tolerance: tolerance, seen: map[string]seen{}}
}

// Observe notes the Lease of node as it is now, whether it has changed or not:
// its holder is alive for duration from when its version changes, or is first
// seen. The version is what nobody but the holder changes, and the holder with
// each renewal, such as the renewTime as an opaque text; not the
// resourceVersion, which everybody's edit changes.
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

// Renewed returns when the holder of the Lease of node was last seen to renew it.
// It is zero for a Lease of which that was not seen: that it differs from what
// it was before an interruption of contact may be the work of one who has died
// since.
func (l *Liveness) Renewed(node string) time.Time { return l.seen[node].renewed }

// Forget notes that the Lease of node is gone: its agent has said goodbye.
func (l *Liveness) Forget(node string) { delete(l.seen, node) }

// Contact notes a proof that every change of a Lease before at has been
// observed: a list that was asked for at at and is observed, or our own renewal
// of at that came back by the watch.
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

// LostContact notes that the API server could not be reached at now. Without
// being told, Liveness notices by the tolerance.
func (l *Liveness) LostContact(now time.Time) { l.lost = now }

// interrupted says whether contact was lost since the last proof of it, given
// that there is contact at at.
func (l *Liveness) interrupted(at time.Time) bool {
	return !l.contact.After(l.lost) || at.Sub(l.contact) > l.tolerance
}

// Live returns the members that are alive, sorted. It is trusted while there is
// contact with the API server. Otherwise nothing may be concluded from who is
// missing.
func (l *Liveness) Live(now time.Time) (nodes []string, trusted bool) {
	for node, s := range l.seen {
		if l.alive(s) {
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	return nodes, l.contact.After(l.lost) && now.Sub(l.contact) <= l.tolerance
}

// Next returns the earliest time at which the silence of a member that is alive
// would be held against it; ok is false when nobody is alive. A proof of contact
// from then on finds the dead as early as can be.
func (l *Liveness) Next() (at time.Time, ok bool) {
	for _, s := range l.seen {
		if end := s.end(); l.alive(s) && (!ok || end.Before(at)) {
			at, ok = end, true
		}
	}
	return at, ok
}

func (l *Liveness) alive(s seen) bool { return l.contact.Before(s.end()) }

// end is when the silence of s has lasted too long.
func (s seen) end() time.Time { return s.since.Add(s.duration) }
