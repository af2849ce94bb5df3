package lease

import (
	"maps"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"purelb.io/purelb/internal/election"
)

// table is what was seen of all Leases. It is not safe for concurrent use.
type table struct {
	self     string
	duration time.Duration
	silence  time.Duration
	// said is what all Leases say that exist, by node.
	said map[string]said
	// live is who lives, by the watch that is on or was the last one, and
	// synced says that this watch has shown all Leases. Listed is when they
	// were listed last.
	live             *election.Liveness
	watching, synced bool
	listed           time.Time
	glimpses
	// fetches are the Leases that are to be read, by node.
	fetches map[string]fetch
	// sent are our renewals that have not come back by the watch, by version,
	// with the time at which each was sent. Taken is when the latest was sent
	// that the API server has, zero if it does not say all that it must;
	// contact is the same, but never taken back.
	sent                     map[string]time.Time
	lastSent, taken, contact time.Time
	// settled is from when the others know of us, and of our networks; zero
	// until our Lease came back. A node that nobody knew of waits for settle
	// before it takes anything, so that nodes that start together see each
	// other first; settling is what this one waits.
	settled          time.Time
	settle, settling time.Duration
}

func newTable(opt Options) *table {
	return &table{
		self:     opt.Node,
		duration: opt.Duration,
		silence:  opt.silence(),
		said:     map[string]said{},
		live:     election.NewLiveness(opt.silence()),
		watching: true,
		glimpses: newGlimpses(),
		fetches:  map[string]fetch{},
		sent:     map[string]time.Time{},
		settle:   opt.RetryPeriod,
	}
}

// observe notes the Lease o as it was at now or later, and says whether that may
// change what is known of the nodes. Most renewals do not, and with a thousand
// nodes there are hundreds in a second.
func (t *table) observe(o *coordinationv1.Lease, now time.Time) bool {
	node, ok := nodeOf(o)
	if !ok {
		return false
	}
	before, seen := t.said[node]
	t.said[node] = read(node, o, t.duration)
	version := versionOf(o)
	t.glimpse(node, version, now, t.watching)
	if t.watching && !t.silent[node] {
		t.live.Observe(node, version, t.said[node].duration, now)
		if since, lost := t.lost[node]; lost && !t.live.Renewed(node).After(since.Add(election.Late)) {
			t.stale[node] = version
		}
		t.live.Observe(node, version, t.term(node, version), now)
	}
	if node == t.self && t.watching {
		t.echo(version, now)
	}
	return !seen || !before.equal(t.said[node]) || node == t.self
}

// term is how long version of the Lease of node counts. One of a node that is lost
// counts shorter than it says until a renewal after the loss is seen: if the node
// lives, that is within reply.
func (t *table) term(node, version string) time.Duration {
	duration := t.said[node].duration
	if stale, ok := t.stale[node]; ok && stale == version {
		return min(duration, t.reply())
	}
	return duration
}

// reply is how long a lost node that lives may take until we see it renew its
// Lease.
func (t *table) reply() time.Duration {
	if !t.unnoticed {
		return t.duration
	}
	return max(t.duration, t.duration/3+time.Duration(maxSpread*float64(t.soon())))
}

// echo notes that our renewal version came back by the watch: proof that our
// writes and the watch both work, and that the watch has shown us everything
// before it.
func (t *table) echo(version string, now time.Time) {
	at, ok := t.sent[version]
	if !ok {
		return
	}
	maps.DeleteFunc(t.sent, func(_ string, other time.Time) bool { return !other.After(at) })
	t.live.Contact(at)
	t.settleFrom(now)
}

// settleFrom notes that at now the others can know of us, and we know of them.
func (t *table) settleFrom(now time.Time) {
	if t.settled.IsZero() {
		t.settled = now.Add(t.settling)
	}
}

// send notes that version is on its way at now, the first one ever if create.
func (t *table) send(version string, create bool, now time.Time) {
	maps.DeleteFunc(t.sent, func(_ string, at time.Time) bool { return now.Sub(at) > 3*t.duration })
	t.sent[version], t.lastSent = now, now
	if create && t.settled.IsZero() {
		t.settling = t.settle
	}
}

// acknowledge notes that the API server has taken version.
func (t *table) acknowledge(version string) {
	at, ok := t.sent[version]
	if !ok {
		return // it came back by the watch already, or says less than it must now
	}
	t.taken = at
	t.prove(at)
	if !t.watching { // nothing comes back
		maps.DeleteFunc(t.sent, func(_ string, other time.Time) bool { return !other.After(at) })
	}
}

// prove notes that the API server has answered what was asked at at.
func (t *table) prove(at time.Time) {
	if at.After(t.contact) {
		t.contact = at
	}
}

// unlisted says whether a list is all that is missing for us to be settled.
func (t *table) unlisted() bool { return !t.watching && t.settled.IsZero() && !t.taken.IsZero() }

// forget notes that the Lease o is gone. If it is ours, somebody deleted it: the
// others may take over what we hold, so nothing counts until they know of us again.
func (t *table) forget(o *coordinationv1.Lease) {
	if node, ok := nodeOf(o); ok {
		t.drop(node)
	}
}

func (t *table) drop(node string) {
	delete(t.said, node)
	t.glimpses.forget(node)
	t.live.Forget(node)
	if node == t.self {
		t.settled, t.taken = time.Time{}, time.Time{}
	}
}

// unsettle notes that from now on this node has networks of which the others do
// not know: it waits until they can, as one that is new does, so that nodes of
// which a mistake is mended at the same moment take nothing from each other.
//
// One that was settled does not wait for the API server: that may be away for
// hours after a cable was out for a moment, while gossip tells the others within
// milliseconds. Should one of them hear of it too late, the segment has the last
// word: it is asked before anything is taken.
func (t *table) unsettle(now time.Time) {
	clear(t.sent)
	t.taken, t.settling = time.Time{}, t.settle
	if !t.settled.IsZero() {
		t.settled = now.Add(t.settle)
	}
}

// overdue says whether a renewal is due before its time, because somebody's
// silence waits for a proof of contact to count.
func (t *table) overdue(now time.Time) bool {
	at, ok := t.live.Next()
	return ok && !now.Before(at) && !t.lastSent.IsZero() && t.lastSent.Before(at)
}
