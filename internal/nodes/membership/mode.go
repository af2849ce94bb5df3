package membership

import (
	"time"

	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/nodes/lease"
)

const (
	// joining is how long gossip may take to find the other nodes. After that the agent
	// polls Leases instead.
	joining = 3 * time.Second
	// linger is how long the agent goes on to poll Leases after it needs to. It is longer
	// than a fast Lease counts. So when a need comes and goes, the agent still finds out which
	// Leases are expired.
	linger = 30 * time.Second
	// burst is how long our Lease is kept fast after a doubtful loss. If the lost nodes are
	// alive and only gossip does not reach them, they have lost us too. Our Lease then
	// proves to them that this node is alive.
	burst = 30 * time.Second
	// idle is the longest time without a read of the sources.
	idle = time.Hour
)

// leaseMode decides how the agent keeps Leases.
type leaseMode struct {
	// limit is how long gossip may take to find the other nodes: joining.
	limit time.Duration
	// alone means that there is no gossip to wait for. Otherwise began is when gossip could
	// begin, or zero before that.
	alone bool
	began time.Time
	// loss is the time of the last doubtful loss. doubted is when there was last a sign
	// that others may take this node for dead: a lost node renewed its Lease fast, or
	// peers accused this node. needed is when polling was last needed.
	loss, doubted, needed time.Time
	// accusations is how often peers had accused this node at the last decision.
	accusations uint64
	// hears means that gossip heard another node at the last decision. polls means that
	// the agent then polled Leases.
	hears, polls bool
}

// decide returns how the agent has to keep Leases. If gossip reaches all nodes, the agent need
// not poll. A node that gossip certainly lost needs no polling either: a thousand agents would
// list all Leases at the same moment. They read the Lease of the lost node now and then, which
// shows whether the node is alive without gossip.
//
// The agent keeps its Lease fast while it polls, and while other nodes may have lost it. There
// are three signs of that: a doubtful loss, peers that accuse this node, and a lost node that
// keeps its Lease fast. A renewal or a list proves contact then, if a decision needs it.
func (k *leaseMode) decide(e election.Evidence, p election.Peers, listed bool, now time.Time) lease.Mode {
	gossiped, others := map[string]election.Gossiped{}, 0
	for _, g := range e.Gossip {
		gossiped[g.Node] = g
		if g.Node != e.Self && g.State == election.Alive {
			others++
		}
	}
	outside, doubtsUs := survey(e, p, gossiped, others)
	k.hears = others > 0
	last := e.LastLoss(now)
	if last.Doubtful() && last.Last.After(k.loss) {
		k.loss = last.Last
	}
	if doubtsUs {
		k.doubted = now
	}
	switch patient := k.began.IsZero() || now.Before(k.began.Add(k.limit)); {
	case k.alone:
		k.needed = now
	case patient && (!listed || outside): // gossip may find them any moment
	case !patient && others == 0, listed && others == 0, outside:
		k.needed = now
	}
	k.polls = !k.needed.IsZero() && now.Before(k.needed.Add(linger))
	fast := k.polls || now.Before(k.loss.Add(burst)) || now.Before(k.doubted.Add(burst))
	return lease.Mode{Poll: k.polls, Fast: fast, Gossip: gossiped, Unproven: unproven(p)}
}

// accused takes the current gossip.Accused. If it has grown, the peers that accuse this node may
// not hear it.
func (k *leaseMode) accused(times uint64, now time.Time) {
	if times > k.accusations {
		k.doubted = now
	}
	k.accusations = times
}

// unproven returns the nodes that are known only from an old Lease.
func unproven(p election.Peers) map[string]bool {
	nodes := map[string]bool{}
	for _, m := range p.Members {
		if m.Unproven {
			nodes[m.Node] = true
		}
	}
	return nodes
}

// survey looks at the nodes that gossip does not hear, and whose Leases still count. outside reports
// whether one of them may be alive, and doubtsUs whether one that gossip lost keeps its Lease fast. gossiped
// is what gossip knows of each node, and others is the number of other nodes that it hears.
//
// If gossip hears other nodes, a slow Lease that was never seen to be renewed most likely
// belongs to a node that is off. A living node that hears no other node keeps its Lease
// fast. A list decides when the Lease expires.
func survey(e election.Evidence, p election.Peers, gossiped map[string]election.Gossiped, others int) (outside, doubtsUs bool) {
	members := map[string]bool{}
	for _, m := range p.Members {
		members[m.Node] = true
	}
	for _, l := range e.Leases {
		g, known := gossiped[l.Node]
		if !l.Alive || l.Node == e.Self || known && g.State == election.Alive {
			continue
		}
		old := others > 0 && !known && l.Slow && l.Renewed.IsZero()
		outside = outside || members[l.Node] && !old
		doubtsUs = doubtsUs || g.State == election.Dead && !l.Slow
	}
	return outside, doubtsUs
}

// next returns when time alone changes the result of decide.
func (k *leaseMode) next(now time.Time) time.Time {
	next := now.Add(idle)
	for _, at := range []time.Time{k.began.Add(k.limit), k.needed.Add(linger), k.loss.Add(burst), k.doubted.Add(burst)} {
		if at.After(now) && at.Before(next) {
			next = at
		}
	}
	return next
}
