package lease

import (
	"maps"
	"math/rand/v2"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/nodes/election"
)

// table is what this node has seen of all Leases. It is not safe for concurrent use.
type table struct {
	self     string
	duration time.Duration
	silence  time.Duration
	// contents holds the contents of all existing Leases, by node.
	contents map[string]content
	// live decides which nodes are alive, from the current watch or the last one. synced
	// means that this watch has shown all Leases. listed is when they were last listed.
	live             *election.Liveness
	watching, synced bool
	listed           time.Time
	samples
	// due are the planned reads, by node. turn, from 0 to 1, is the place of this agent among
	// all agents that would read at the same time. noDigest is how many known nodes tell no
	// digest. Before retry, the agent reads nothing, because the API server did not answer.
	// pauses are the pauses after failed requests.
	due      map[string]due
	turn     float64
	noDigest int
	retry    time.Time
	pauses   backoff.Pauses
	// sent holds the times at which our renewals were sent that the watch has not shown yet,
	// by version. accepted is when the latest renewal was sent that the API server accepted.
	// It is zero if that renewal lacks something that it must contain now. contact is the
	// latest time of a request that the API server answered.
	sent                        map[string]time.Time
	lastSent, accepted, contact time.Time
	// settled is the time from which the other nodes know of this node and its networks. It
	// is zero until a list or the watch has shown our Lease. A node that no other node knows
	// waits for settle before it takes an address, so that nodes that start together see each
	// other first. settling is how long this node waits.
	settled          time.Time
	settle, settling time.Duration
}

func newTable(opt Options) *table {
	return &table{
		self:     opt.Node,
		duration: opt.Duration,
		silence:  opt.silence(),
		contents: map[string]content{},
		live:     election.NewLiveness(opt.silence()),
		watching: true,
		samples:  newSamples(),
		due:      map[string]due{},
		turn:     rand.Float64(),
		pauses:   backoff.Pauses{Min: opt.RetryPeriod, Spread: true},
		sent:     map[string]time.Time{},
		settle:   opt.RetryPeriod,
	}
}

// observe records the Lease o as it was at now or later. It reports whether that may change
// the known state of the nodes. Most renewals do not change it, and a thousand nodes renew
// hundreds of Leases in a second.
func (t *table) observe(o *coordinationv1.Lease, now time.Time) bool {
	node, ok := nodeOf(o)
	if !ok {
		return false
	}
	before, seen := t.contents[node]
	t.contents[node] = read(node, o, t.duration)
	version := versionOf(o)
	t.sample(node, version, now, t.watching)
	if t.watching && !t.silent[node] {
		t.live.Observe(node, version, t.contents[node].duration, now)
		if since, lost := t.lost[node]; lost && !t.live.Renewed(node).After(since.Add(election.Late)) {
			t.stale[node] = version
		}
		t.live.Observe(node, version, t.term(node, version), now)
	}
	if node == t.self && t.watching {
		t.echo(version, now)
	}
	return !seen || !before.equal(t.contents[node]) || node == t.self
}

// term returns how long version of the Lease of node counts. The Lease of a lost node
// counts for a shorter time until a renewal after the loss is seen. If the node is alive,
// that takes no longer than reply.
func (t *table) term(node, version string) time.Duration {
	duration := t.contents[node].duration
	if stale, ok := t.stale[node]; ok && stale == version {
		return min(duration, t.reply())
	}
	return duration
}

// reply returns how long it may take until a lost node that is alive renews its Lease and
// this node sees it.
func (t *table) reply() time.Duration {
	if !t.unnoticed {
		return t.duration
	}
	return max(t.duration, t.duration/3+time.Duration(maxSpread*float64(t.recheckPause())))
}

// echo records that the watch showed our renewal version. That proves that our writes and
// the watch both work, and that the watch has shown everything before the renewal.
func (t *table) echo(version string, now time.Time) {
	at, ok := t.sent[version]
	if !ok {
		return
	}
	maps.DeleteFunc(t.sent, func(_ string, other time.Time) bool { return !other.After(at) })
	t.live.Contact(at)
	t.settleFrom(now)
}

// settleFrom records that from now on the other nodes can know of this node, and this node
// of them.
func (t *table) settleFrom(now time.Time) {
	if t.settled.IsZero() {
		t.settled = now.Add(t.settling)
	}
}

// send records that version is sent at now. create means that it creates the Lease.
func (t *table) send(version string, create bool, now time.Time) {
	maps.DeleteFunc(t.sent, func(_ string, at time.Time) bool { return now.Sub(at) > 3*t.duration })
	t.sent[version], t.lastSent = now, now
	if create && t.settled.IsZero() {
		t.settling = t.settle
	}
}

// acknowledge records that the API server accepted version.
func (t *table) acknowledge(version string) {
	at, ok := t.sent[version]
	if !ok {
		return // the watch already showed it, or it lacks what it must contain now
	}
	t.accepted = at
	t.prove(at)
	if !t.watching { // no watch will show it
		maps.DeleteFunc(t.sent, func(_ string, other time.Time) bool { return !other.After(at) })
	}
}

// prove records that the API server answered a request. The request was sent at the time sent.
func (t *table) prove(sent time.Time) {
	if sent.After(t.contact) {
		t.contact = sent
	}
}

// unlisted reports whether only a list is missing for this node to be settled.
func (t *table) unlisted() bool { return !t.watching && t.settled.IsZero() && !t.accepted.IsZero() }

// forget records that the Lease o is gone. If it is ours, it was deleted: the other nodes
// may take over our addresses. So this node is not settled until they know of it again.
func (t *table) forget(o *coordinationv1.Lease) {
	if node, ok := nodeOf(o); ok {
		t.drop(node)
	}
}

func (t *table) drop(node string) {
	delete(t.contents, node)
	t.samples.forget(node)
	t.live.Forget(node)
	if node == t.self {
		t.settled, t.accepted = time.Time{}, time.Time{}
	}
}

// unsettle records that this node now has networks of which the other nodes do not know. It
// waits until they can know, like a new node. So when a mistake is corrected on several
// nodes at once, they do not take addresses from each other.
//
// A node that was settled does not wait for the API server. After a cable was unplugged for a
// moment, the server may be away for hours, while gossip informs the other nodes within
// milliseconds. If another node learns of the networks too late, the segment decides: an agent
// probes it before it takes an address.
func (t *table) unsettle(now time.Time) {
	clear(t.sent)
	t.accepted, t.settling = time.Time{}, t.settle
	if !t.settled.IsZero() {
		t.settled = now.Add(t.settle)
	}
}

// overdue reports whether this node must renew its Lease early: a node has become silent, and
// that counts only after a new proof of contact.
func (t *table) overdue(now time.Time) bool {
	at, ok := t.live.Next()
	return ok && !now.Before(at) && !t.lastSent.IsZero() && t.lastSent.Before(at)
}
