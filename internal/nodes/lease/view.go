package lease

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
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
		Leased: leased, gossip: Gossip(o), duration: duration, renewal: o.Spec.RenewTime,
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

// Read returns what o says of its node. The Lease is alive at first.
func Read(o *coordinationv1.Lease) election.Leased {
	agent, told := o.Annotations[AnnotationAgent]
	l := election.Leased{
		Record: election.Record{Node: Node(o), Subnets: Subnets(o), Own: Addresses(o), Draining: Draining(o)},
		Alive:  true, Unconfigured: told && agent == "",
		Unable: list(o.Annotations[AnnotationUnable], maxUnable, parseAddress), Weights: Weights(o),
	}
	macs, _ := MACs(o)
	for _, m := range macs {
		l.MACs = append(l.MACs, m)
	}
	return l
}

// Node returns the name of the node to which o belongs, or "" if o is another Lease.
func Node(o *coordinationv1.Lease) string {
	if node, ok := strings.CutPrefix(o.Name, Prefix); ok {
		return node
	}
	return ""
}

// Subnets returns the networks in o.
func Subnets(o *coordinationv1.Lease) []netip.Prefix {
	return list(o.Annotations[AnnotationSubnets], maxSubnets, parseSubnet)
}

// Addresses returns the node's own addresses in o.
func Addresses(o *coordinationv1.Lease) []netip.Addr {
	return list(o.Annotations[AnnotationAddresses], maxAddresses, parseAddress)
}

// Gateways returns the routers of the node's default routes in o.
func Gateways(o *coordinationv1.Lease) []netip.Addr {
	return list(o.Annotations[AnnotationGateways], maxGateways, parseAddress)
}

// Gossip returns the gossip address in o, or the zero value if the node does not gossip.
func Gossip(o *coordinationv1.Lease) netip.AddrPort {
	place, err := netip.ParseAddrPort(o.Annotations[AnnotationGossip])
	if err != nil || place.Port() == 0 {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(place.Addr().Unmap().WithZone(""), place.Port())
}

// Draining reports whether o asks the election to prefer other nodes.
func Draining(o *coordinationv1.Lease) bool { return o.Annotations[AnnotationDraining] != "" }
