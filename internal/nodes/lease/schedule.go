package lease

import "time"

// While the agent does not poll Leases, it reads the Lease of another node when it has a
// reason to: gossip announced another content, or gossip does not hear the node. The API
// server gets one small request then, and not a list of all Leases. Lists find the nodes of
// which gossip knows nothing. They also replace many small requests.
const (
	// few is how many Leases the agent reads one by one. If more are due, it lists all.
	few = 16
	// pollEach, times the number of nodes, is the shortest pause between two lists of an agent that
	// polls.
	pollEach = 3 * time.Millisecond
	// failEach, times the number of nodes, limits the pause after a failed request. So all nodes
	// together send at most 33 such requests in a second.
	failEach = 30 * time.Millisecond
	// resync is the shortest pause between two lists when all is well. In a large cluster,
	// resyncEach for each known node keeps the number of lists of all nodes together the same.
	resync, resyncEach = 5 * time.Minute, 720 * time.Millisecond
	// recheck is the pause between two reads of the Lease of a node that gossip does not hear.
	// recheckEach is added for each known node, so that the lists of all nodes together do not
	// grow faster than their number.
	recheck, recheckEach = 5 * time.Second, 30 * time.Millisecond
	// writtenAfter is how long a node may need to write its Lease after gossip announced
	// the change. The nodes spread their reads of the Lease over readEach for each node.
	writtenAfter, readEach = time.Second, 10 * time.Millisecond
	// Agents that start together should not read together. Each agent multiplies its pauses
	// by a number from minSpread to maxSpread.
	minSpread, maxSpread = 0.75, 1.25
)

// step is what the agent reads next: all Leases, or the Lease of node. If it is neither, the
// agent reads nothing for a time.
type step struct {
	list bool
	node string
	wait time.Duration
}

// reason is why the Lease of a node is due. The zero value is no reason.
type reason struct {
	doubtful bool   // the Lease decides whether the node is alive
	changed  bool   // gossip tells of another content, or the Lease is unknown
	digest   uint64 // what gossip tells
}

// want is the wish to read the Lease of a node for a reason.
type want struct {
	reason
	// since is when the reason came. asked is when the Lease was last read for it, or zero.
	since, asked time.Time
}

// reason returns why the Lease of node must be read.
func (t *table) reason(node string) reason {
	s := t.seen[node]
	_, lost := t.mode.lost(node)
	switch digest, hears := t.mode.hears(node); {
	case node == t.self:
	case s != nil && s.Alive && (lost || t.mode.Unproven[node]):
		return reason{doubtful: true}
	case hears && (s == nil || digest != 0 && digest != s.digest):
		return reason{changed: true, digest: digest}
	}
	return reason{}
}

// plan brings the wishes up to date.
func (t *table) plan(now time.Time) {
	for node := range t.wants {
		if t.reason(node) == (reason{}) {
			delete(t.wants, node)
		}
	}
	for node := range t.mode.Gossip {
		t.planOne(node, now)
	}
	for node := range t.mode.Unproven {
		t.planOne(node, now)
	}
}

// planOne begins anew if gossip tells of another content after the last read. A Lease that changes again
// and again before it is read is read as early as one that changes once.
func (t *table) planOne(node string, now time.Time) {
	r := t.reason(node)
	if r == (reason{}) {
		return
	}
	w, wanted := t.wants[node]
	if !wanted || w.doubtful != r.doubtful || w.digest != r.digest && !w.asked.IsZero() {
		w = want{since: now}
	}
	w.reason = r
	t.wants[node] = w
}

// due returns when to read the Lease of node. A Lease that the node should have written is read at growing
// intervals.
func (t *table) due(node string, w want) time.Time {
	switch {
	case w.changed && w.asked.IsZero():
		spread := t.turn * float64(readEach) * float64(len(t.seen))
		return w.since.Add(writtenAfter + time.Duration(spread))
	case w.changed:
		return w.asked.Add(min(w.asked.Sub(w.since)+writtenAfter, resync))
	}
	from := later(w.since, w.asked)
	if _, lost := t.mode.lost(node); !lost { // it is unproven until its Lease expires
		from = later(from, t.seen[node].since.Add(t.seen[node].duration))
	}
	return from.Add(t.spread(t.recheckPause()))
}

// answered records that the API server answered at now what it was asked about the Leases of nodes.
func (t *table) answered(now time.Time, nodes ...string) {
	t.pauses.Reset()
	for _, node := range nodes {
		if w, wanted := t.wants[node]; wanted {
			w.asked = now
			t.wants[node] = w
		}
	}
	t.plan(now)
}

// fail makes the agent wait before its next request, because the API server did not answer.
// The pauses grow with each failure. In a large cluster they grow for longer, so that a
// server that is back does not get the requests of all agents at once.
func (t *table) fail(now time.Time) {
	t.pauses.Max = t.pauses.Min + failEach*time.Duration(max(len(t.seen), len(t.mode.Gossip)))
	t.failed, t.retry = now, now.Add(t.pauses.Next())
}

// next returns what to read at now.
func (t *table) next(now time.Time) step {
	switch {
	case now.Before(t.retry):
		return step{wait: t.retry.Sub(now)}
	case t.listed.IsZero(), t.unlisted():
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
	for _, other := range []time.Time{at, t.settled} {
		if other.After(now) && other.Before(until) {
			until = other
		}
	}
	return step{wait: until.Sub(now)}
}

// planned returns the next read of one Lease, or an empty node, and when the next list is due.
// If more than a few Leases are due at now, one list replaces their reads.
func (t *table) planned(now time.Time) (node string, at, list time.Time) {
	list = t.listed.Add(t.spread(t.listPause()))
	if t.mode.Poll {
		return "", time.Time{}, list
	}
	dues := 0
	for n, w := range t.wants {
		due := t.due(n, w)
		if !due.After(now) {
			dues++
		}
		if node == "" || due.Before(at) || due.Equal(at) && n < node {
			node, at = n, due
		}
	}
	if dues <= few {
		return node, at, list
	}
	if soon := t.listed.Add(t.spread(t.recheckPause())); soon.Before(list) {
		list = soon
	}
	return "", time.Time{}, list
}

// listPause returns the pause between two lists.
func (t *table) listPause() time.Duration {
	if t.mode.Poll {
		return max(t.duration/10, pollEach*time.Duration(len(t.seen)))
	}
	return max(resync, resyncEach*time.Duration(len(t.seen)))
}

// recheckPause returns the pause between two reads of the Lease of a node that gossip does not hear.
func (t *table) recheckPause() time.Duration {
	return recheck + recheckEach*time.Duration(len(t.seen))
}

// spread returns pause times the factor of this agent, which is from minSpread to maxSpread.
func (t *table) spread(pause time.Duration) time.Duration {
	return time.Duration(float64(pause) * (minSpread + t.turn*(maxSpread-minSpread)))
}
