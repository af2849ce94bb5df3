package lease

import (
	"math/rand/v2"
	"net/netip"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/nodes/election"
)

// table is what this node has seen of all Leases. It is not safe for concurrent use.
//
// All times are from this node's clock. The clocks of other machines do not matter.
type table struct {
	self     string
	duration time.Duration
	silence  time.Duration
	// seen is what this node has seen of each existing Lease, by node. listed is when all Leases
	// were last listed. failed is when the API server last did not answer.
	seen           map[string]*seen
	listed, failed time.Time
	// mode is that of Leases.
	mode Mode
	// wants are the Leases to read, by node. turn, from 0 to 1, is the place of this agent among
	// all agents that would read at the same time. Before retry, the agent reads nothing, because
	// the API server did not answer. pauses are the pauses after failed requests.
	wants  map[string]want
	turn   float64
	retry  time.Time
	pauses backoff.Pauses
	// accepted is when the latest renewal was sent that the API server accepted. It is zero if that
	// renewal lacks something that it must contain now. Renewals before required lack it. contact
	// is the latest time of a request that the API server answered.
	accepted, required, contact time.Time
	// settled is the time from which the other nodes know of this node and its networks. It
	// is zero until a list has shown our Lease. A node that no other node knows waits for settle
	// before it takes an address, so that nodes that start together see each other first. settling
	// is how long this node waits.
	settled          time.Time
	settle, settling time.Duration
}

// seen is what this node has seen of one Lease.
type seen struct {
	// A Lease is Alive unless it was not renewed for as long as it counts.
	election.Leased
	gossip   netip.AddrPort
	duration time.Duration
	digest   uint64
	renewal  *metav1.MicroTime // only the holder of the Lease changes it
	// since is the start of the time without a renewal. read is when the Lease was last read.
	since, read time.Time
}

func newTable(opt Options) *table {
	return &table{
		self:     opt.Node,
		duration: opt.Duration,
		silence:  opt.silence(),
		seen:     map[string]*seen{},
		mode:     Mode{Poll: true, Fast: true},
		wants:    map[string]want{},
		turn:     rand.Float64(),
		pauses:   backoff.Pauses{Min: opt.RetryPeriod, Spread: true},
		settle:   opt.RetryPeriod,
	}
}

// observe records the Lease o. The request for it was sent at the time at.
//
// Time without a renewal counts only while this node has contact with the API server: after an
// interruption, every holder gets the full time to renew its Lease. So a node that is cut off finds
// no Lease expired.
func (t *table) observe(o *coordinationv1.Lease, at time.Time) {
	s := t.parse(o)
	node := s.Node
	if node == "" {
		return
	}
	s.since, s.read = at, at
	if old := t.seen[node]; old != nil {
		if s.Renewed = old.read; s.renewal.Equal(old.renewal) {
			s.since, s.Renewed, s.Alive = old.since, old.Renewed, old.Alive
		}
		if s.Alive && (t.failed.After(old.read) || t.mode.Poll && at.Sub(old.read) > t.silence) {
			s.since = at
		}
	}
	t.seen[node] = s
	t.judge(node, s)
}

// judge finds out whether the Lease of node still counts. Without polling it matters only for a lost
// or an unproven node. The Lease of a lost node counts as long as a fast one.
func (t *table) judge(node string, s *seen) {
	from, counts := s.since, s.duration
	if since, lost := t.mode.lost(node); lost {
		from, counts = later(from, since), min(counts, t.reply())
	} else if !t.mode.Poll && !t.mode.Unproven[node] {
		return
	}
	s.Alive = s.Alive && s.read.Sub(from) <= counts
}

// reply returns how long it may take until a lost node that is alive renews its Lease and this node
// sees it. A node that lost only a few nodes keeps its Lease slow until a read shows that a lost
// node has a fast Lease.
func (t *table) reply() time.Duration {
	return max(t.duration, t.duration/3+time.Duration(maxSpread*float64(t.recheckPause())))
}

// list records all as the complete list of Leases. The request for it was sent at the time sent.
func (t *table) list(all []coordinationv1.Lease, sent time.Time) {
	there := map[string]bool{}
	for i := range all {
		there[Node(&all[i])] = true
		t.observe(&all[i], sent)
	}
	for node := range t.seen {
		if !there[node] {
			t.drop(node)
		}
	}
	t.listed = sent
	t.prove(sent)
	if !t.accepted.IsZero() && sent.After(t.accepted) && t.settled.IsZero() {
		t.settled = sent.Add(t.settling)
	}
}

// drop records that the Lease of node is gone. If it is ours, it was deleted: the other nodes may
// take over our addresses. So this node is not settled until they know of it again.
func (t *table) drop(node string) {
	delete(t.seen, node)
	if node == t.self {
		t.settled, t.accepted = time.Time{}, time.Time{}
	}
}

// acknowledge records that the API server accepted the renewal of the time sent.
func (t *table) acknowledge(sent time.Time) {
	if !sent.Before(t.required) {
		t.accepted = sent
	}
	t.prove(sent)
}

// prove records that the API server answered a request. The request was sent at the time sent.
func (t *table) prove(sent time.Time) {
	if sent.After(t.contact) {
		t.contact = sent
	}
}

// unlisted reports whether only a list is missing for this node to be settled.
func (t *table) unlisted() bool { return t.settled.IsZero() && !t.accepted.IsZero() }

// unsettle records that this node now has networks of which the other nodes do not know. It
// waits until they can know, like a new node. So when a mistake is corrected on several
// nodes at once, they do not take addresses from each other.
//
// A node that was settled does not wait for the API server. After a cable was unplugged for a
// moment, the server may be away for hours, while gossip informs the other nodes within
// milliseconds. If another node learns of the networks too late, the segment decides: an agent
// probes it before it takes an address.
func (t *table) unsettle(now time.Time) {
	t.accepted, t.required, t.settling = time.Time{}, now, t.settle
	if !t.settled.IsZero() {
		t.settled = now.Add(t.settle)
	}
}

// change sets the mode. An agent that left in order has deleted its Lease. The Lease of a node that
// gossip hears again is not expired any more. An expired Lease is not read. So if gossip lost the node
// once more, this node would not see that the other one renews its Lease fast.
func (t *table) change(m Mode, now time.Time) {
	for node, g := range m.Gossip {
		before, known := t.mode.Gossip[node]
		switch entered := !known || before.State != g.State; {
		case entered && g.State == election.Left:
			t.drop(node)
		case entered && g.State == election.Alive && t.seen[node] != nil:
			t.seen[node].Alive = true
		}
	}
	t.mode = m
	t.plan(now)
}
