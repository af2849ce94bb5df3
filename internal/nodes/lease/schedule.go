package lease

import (
	"slices"
	"time"
)

// While the agent does not watch Leases, it reads the Lease of another node when it has a
// reason to: gossip announced another content, or gossip does not hear the node. The API
// server gets one small request then, and not a list of all Leases. Lists find the nodes of
// which gossip knows nothing. They also replace many small requests.
const (
	// few is how many Leases the agent reads one by one. If more are due, it lists all.
	few = 16
	// listEach, times the number of nodes, is a time. The nodes spread the lists that replace
	// many reads over that time, and it limits the pause after a failed request. So all nodes
	// together send at most 33 such requests in a second.
	listEach = 30 * time.Millisecond
	// resync is the shortest pause between two lists when all is well, and maxResync the
	// longest. In between, resyncEach for each known node keeps the number of lists of all
	// nodes together the same.
	resync, resyncEach, maxResync = 5 * time.Minute, 720 * time.Millisecond, time.Hour
	// recheck is the pause between two reads of the Lease of a node that gossip does not hear.
	// recheckEach is added for each known node, so that the lists of all nodes together do not
	// grow faster than their number.
	recheck, recheckEach = 5 * time.Second, 30 * time.Millisecond
	// writtenAfter is how long a node may need to write its Lease after gossip announced
	// the change.
	writtenAfter = time.Second
	// readEach, times the number of nodes, is the time over which the nodes spread their reads of
	// one changed Lease. It is urgentEach if the change may concern networks that gossip does not
	// carry.
	readEach, urgentEach = 10 * time.Millisecond, time.Millisecond
	// Agents that start together should not read together. Each agent multiplies its pauses
	// by a number from minSpread to maxSpread.
	minSpread, maxSpread = 0.75, 1.25
)

// Digest is gossip's information about the Lease of a node that it hears.
type Digest struct {
	// Value is the Record.Digest of the node. It is 0 if its agent is of an earlier version, or has
	// not read its networks yet. Then no message reports a change of the Lease.
	Value uint64
	// Urgent means that gossip does not tell all networks of the node.
	Urgent bool
}

// step is what the agent reads next: all Leases, or the Lease of node. If it is neither, the
// agent reads nothing for a time.
type step struct {
	list bool
	node string
	wait time.Duration
}

// reason is why the Lease of a node is due.
type reason struct {
	kind   kind
	digest Digest
}

type kind int

const (
	noReason kind = iota
	changed       // gossip tells of another content, or the Lease is unknown
	doubtful      // the Lease decides whether the node is alive
	departed      // the agent of the node left, and should have deleted the Lease
	noDigest      // gossip carries no digest, so the Lease may change without notice
)

// due is the next read of the Lease of one node.
type due struct {
	reason
	at    time.Time
	list  time.Time     // from then on a list may replace the read
	pause time.Duration // from at to the read after it
}

// reason returns why the Lease of node must be read.
func (t *table) reason(node string) reason {
	s, known := t.contents[node]
	_, lost := t.lost[node]
	_, left := t.left[node]
	switch d, hears := t.digests[node]; {
	case node == t.self:
	case known && !t.silent[node] && (lost || t.unproven[node]):
		return reason{kind: doubtful}
	case known && left:
		return reason{kind: departed}
	case hears && (!known || d.Value != 0 && d.Value != s.digest):
		return reason{changed, d}
	case hears && known && d.Value == 0 && t.noDigest <= few:
		return reason{kind: noDigest}
	}
	return reason{}
}

// plan brings the planned reads up to date. It reports whether there is a new one.
func (t *table) plan(now time.Time) (more bool) {
	t.noDigest = 0
	for node, d := range t.digests {
		if _, known := t.contents[node]; known && d.Value == 0 && node != t.self {
			t.noDigest++
		}
	}
	for node := range t.due {
		if t.reason(node).kind == noReason {
			delete(t.due, node)
		}
	}
	consider := func(node string) {
		r := t.reason(node)
		d, planned := t.due[node]
		if r.kind == noReason || planned && d.reason == r {
			return
		}
		first := t.first(node, r, now)
		if planned && d.kind == r.kind {
			// A Lease that changes again and again is read as early as one that changes once,
			// and no more often.
			if d.at.Before(first.at) {
				first.at, first.list = d.at, d.list
			}
			first.pause = max(first.pause, d.pause)
		}
		t.due[node], more = first, true
	}
	for node := range t.digests {
		consider(node)
	}
	for node := range t.lost {
		consider(node)
	}
	for node := range t.left {
		consider(node)
	}
	for node := range t.unproven {
		consider(node)
	}
	return more
}

// first returns the first read of the Lease of node for the reason r.
func (t *table) first(node string, r reason, now time.Time) due {
	pause, each := writtenAfter, readEach
	switch {
	case r.kind == doubtful:
		from := now
		if _, lost := t.lost[node]; !lost { // it is unproven until its Lease expires
			from = later(now, t.last[node].first.Add(t.contents[node].duration))
		}
		at := from.Add(t.spread(t.recheckPause()))
		return due{r, at, at, t.spread(t.recheckPause())}
	case r.kind == noDigest:
		at := later(now, t.last[node].last.Add(t.spread(resync)))
		return due{r, at, at, t.spread(resync)}
	case r.digest.Urgent:
		each = urgentEach
	}
	return due{r, now.Add(writtenAfter + t.share(each)), now.Add(writtenAfter + t.share(listEach)), pause}
}

// share returns the wait of this agent if all agents together spread their actions over each for
// every node.
func (t *table) share(each time.Duration) time.Duration {
	return time.Duration(t.turn * float64(each) * float64(len(t.contents)))
}

// postpone plans the reads that were due at now and are still needed. A Lease that the node
// should have written is read at growing intervals.
func (t *table) postpone(now time.Time) {
	for node, d := range t.due {
		switch {
		case t.reason(node).kind == noReason:
			delete(t.due, node)
		case !d.at.After(now):
			if d.kind != doubtful {
				d.pause = min(2*d.pause, resync)
			}
			d.at = now.Add(d.pause)
			d.list = later(d.list, d.at)
			t.due[node] = d
		}
	}
}

// fail makes the agent wait before its next request, because the API server did not answer.
// The pauses grow with each failure. In a large cluster they grow for longer, so that a
// server that is back does not get the requests of all agents at once.
func (t *table) fail(now time.Time) {
	t.pauses.Max = t.pauses.Min + listEach*time.Duration(max(len(t.contents), len(t.digests)))
	t.retry = now.Add(t.pauses.Next())
}

// next returns what to read at now.
func (t *table) next(now time.Time) step {
	if now.Before(t.retry) {
		return step{wait: t.retry.Sub(now)}
	}
	if t.listed.IsZero() || t.unlisted() {
		return step{list: true}
	}
	node, at, list := t.planned(now)
	switch {
	case !list.After(now):
		return step{list: true}
	case node != "" && !at.After(now):
		return step{node: node}
	}
	until := list
	if node != "" && at.Before(until) {
		until = at
	}
	if t.settled.After(now) && t.settled.Before(until) {
		until = t.settled
	}
	return step{wait: until.Sub(now)}
}

// planned returns the next read of one Lease, or an empty node, and when the next list is due.
// If more than a few Leases are due at now, one list replaces their reads.
func (t *table) planned(now time.Time) (node string, at, list time.Time) {
	list = t.listed.Add(t.spread(t.resyncPause()))
	var dues []time.Time // when a list may replace the reads that are due
	for n, d := range t.due {
		if !d.at.After(now) {
			dues = append(dues, d.list)
		}
		if node == "" || d.at.Before(at) || d.at.Equal(at) && n < node {
			node, at = n, d.at
		}
	}
	if len(dues) <= few {
		return node, at, list
	}
	slices.SortFunc(dues, time.Time.Compare)
	if soon := later(dues[few], t.listed.Add(t.spread(t.recheckPause()))); soon.Before(list) {
		list = soon
	}
	return "", time.Time{}, list
}

// resyncPause returns the pause between two lists when all is well. If many agents tell no digest,
// lists alone read their Leases.
func (t *table) resyncPause() time.Duration {
	if t.noDigest > few {
		return resync
	}
	return min(max(resync, resyncEach*time.Duration(len(t.contents))), maxResync)
}

// recheckPause returns the pause between two reads of the Lease of a node that gossip does not hear.
func (t *table) recheckPause() time.Duration {
	return recheck + recheckEach*time.Duration(len(t.contents))
}

// spread returns pause times the factor of this agent, which is from minSpread to maxSpread.
func (t *table) spread(pause time.Duration) time.Duration {
	return time.Duration(float64(pause) * (minSpread + t.turn*(maxSpread-minSpread)))
}
