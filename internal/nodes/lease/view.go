package lease

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"purelb.io/purelb/internal/nodes/election"
)

// View is the state of the nodes by their Leases, at one moment.
type View struct {
	// Leases are all known Leases, sorted by node. A Lease counts as alive unless it was found
	// expired.
	Leases []election.Leased
	// Trusted means that Leases are polled now, and that the API server answers this node and
	// accepts its renewals. Then a node whose Lease is expired or missing is dead.
	Trusted bool
	// Contact is the latest time of a request that the API server answered.
	Contact time.Time
	// Settled means that the other nodes have had time to learn of this node, and this node
	// of them.
	Settled bool
	// Listed means that the Leases have been listed once.
	Listed bool
}

// parse returns what o says. A Lease is alive at first.
func (t *table) parse(o *coordinationv1.Lease) *seen {
	duration := durationOf(o, t.duration)
	leased := Read(o)
	leased.Slow = duration > t.duration
	return &seen{
		Leased: leased, gossip: Gossip(o), duration: duration, version: versionOf(o),
		digest: digest(o.Annotations[AnnotationSubnets], o.Annotations[AnnotationAddresses], o.Annotations[AnnotationMACs],
			o.Annotations[AnnotationUnable], o.Annotations[AnnotationWeights], o.Annotations[AnnotationAgent]),
	}
}

// view returns the known state at now.
func (t *table) view(now time.Time) View {
	v := View{
		Contact: t.contact,
		Settled: !t.settled.IsZero() && !now.Before(t.settled),
		Listed:  !t.listed.IsZero(),
		Trusted: t.mode.Poll && t.listed.After(t.failed) && now.Sub(t.listed) <= t.silence && now.Sub(t.accepted) <= t.duration,
	}
	for _, s := range t.seen {
		v.Leases = append(v.Leases, s.Leased)
	}
	slices.SortFunc(v.Leases, func(a, b election.Leased) int { return cmp.Compare(a.Node, b.Node) })
	return v
}

// seeds returns the gossip addresses of other nodes.
func (t *table) seeds() []netip.AddrPort {
	var seeds []netip.AddrPort
	for node, s := range t.seen {
		if node != t.self && s.gossip.IsValid() && s.Alive {
			seeds = append(seeds, s.gossip)
		}
	}
	return seeds
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
