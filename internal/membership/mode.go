package membership

import (
	"slices"
	"time"

	"purelb.io/purelb/internal/election"
	"purelb.io/purelb/internal/lease"
)

const (
	// joining is how long gossip may take to find the others before Leases
	// are watched instead.
	joining = 3 * time.Second
	// linger is how long Leases are watched after the need for it is gone:
	// longer than a Lease that is kept fast counts, so that a need that comes
	// and goes does not list all Leases again and again.
	linger = 30 * time.Second
	// burst is how long our Lease is kept fast after a doubtful loss. If the lost
	// nodes live and only gossip does not reach them, they have lost us too, and
	// find out by our Lease that we live.
	burst = 30 * time.Second
	// idle is the most time without a look at the sources.
	idle = time.Hour
)

// leaseMode decides how Leases are kept.
type leaseMode struct {
	// limit is how long gossip may take to find the others: joining.
	limit time.Duration
	// alone says that there is no gossip to wait for, and began is from when
	// there is otherwise; zero until then.
	alone bool
	began time.Time
	// loss is the time of the last doubtful loss. doubted is when there was last a sign
	// that others may take this node for dead: a lost node renewed its Lease fast, or
	// peers accused this node. needed is when a watch was last needed.
	loss, doubted, needed time.Time
	// accusations is how often peers had accused this node when it was last decided.
	accusations uint64
	// hears says that gossip reached a node, watches that Leases are
	// watched, when it was last decided.
	hears, watches bool
}

// decide returns how Leases are to be kept. Where gossip reaches all nodes there
// is no need to watch. A node that it lost for certain needs no watch either: a
// thousand agents would begin one at the same moment. They list now and then
// until it is clear whether the node lives and only does not gossip.
//
// Our Lease is kept fast for those who watch, and for nodes that may have lost us:
// after a doubtful loss, when a lost node keeps its Lease fast, as a node does
// that has lost most others, and when peers accused this node. Prove says that a proof of contact is due, because
// of a doubtful loss that is new.
func (k *leaseMode) decide(e election.Evidence, p election.Peers, listed bool, now time.Time) (keeping lease.Keeping, prove bool) {
	others, unheard, lost := survey(e, p)
	k.hears = others > 0
	last := e.LastLoss()
	if last.Doubtful() && last.Last.After(k.loss) {
		k.loss, prove = last.Last, true
	}
	if doubtsUs(e, lost) {
		k.doubted = now
	}
	switch patient := k.began.IsZero() || now.Before(k.began.Add(k.limit)); {
	case k.alone:
		k.needed = now
	case patient && (!listed || unheard): // gossip may find them any moment
	case !patient && others == 0, listed && others == 0, unheard:
		k.needed = now
	}
	k.watches = !k.needed.IsZero() && now.Before(k.needed.Add(linger))
	fast := k.watches || now.Before(k.loss.Add(burst)) || now.Before(k.doubted.Add(burst))
	return lease.Keeping{Watch: k.watches, Fast: fast, Lost: lost, Unnoticed: last.Unnoticed(), Unproven: unproven(p)}, prove
}

// accused notes how often peers have accused this node since gossip began. They may hear
// nothing that this node sends.
func (k *leaseMode) accused(times uint64, now time.Time) {
	if times > k.accusations {
		k.doubted = now
	}
	k.accusations = times
}

// doubtsUs says whether one of the lost nodes keeps its Lease fast.
func doubtsUs(e election.Evidence, lost map[string]time.Time) bool {
	return slices.ContainsFunc(e.Leases, func(l election.Leased) bool {
		_, gone := lost[l.Node]
		return gone && !l.Slow
	})
}

// unproven returns the nodes of which nothing but an old Lease tells, sorted.
func unproven(p election.Peers) (nodes []string) {
	for _, m := range p.Members {
		if m.Unproven {
			nodes = append(nodes, m.Node)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// survey counts the other nodes that gossip hears, says whether a node may live
// that it does not hear, and returns which of those whose Leases count still it
// lost, and when.
//
// If gossip hears others, a slow Lease that was not seen to be renewed is most
// likely of a node that is off: a node that lives and hears no other keeps its
// Lease fast. A list when the Lease runs out tells.
func survey(e election.Evidence, p election.Peers) (others int, unheard bool, lost map[string]time.Time) {
	gossiped := map[string]election.Gossiped{}
	for _, g := range e.Gossip {
		gossiped[g.Node] = g
		if g.Node != e.Self && g.State == election.Alive {
			others++
		}
	}
	members := map[string]bool{}
	for _, m := range p.Members {
		members[m.Node] = true
	}
	lost = map[string]time.Time{}
	for _, l := range e.Leases {
		g, known := gossiped[l.Node]
		if !l.Alive || l.Node == e.Self || known && g.State == election.Alive {
			continue
		}
		old := others > 0 && !known && l.Slow && l.Renewed.IsZero()
		unheard = unheard || members[l.Node] && !old
		if known && g.State == election.Dead {
			lost[l.Node] = g.Since
		}
	}
	return others, unheard, lost
}

// next returns when time alone changes what decide returns.
func (k *leaseMode) next(now time.Time) time.Time {
	next := now.Add(idle)
	for _, at := range []time.Time{k.began.Add(k.limit), k.needed.Add(linger), k.loss.Add(burst), k.doubted.Add(burst)} {
		if at.After(now) && at.Before(next) {
			next = at
		}
	}
	return next
}
