package lease

import (
	"net/netip"

	coordinationv1 "k8s.io/api/coordination/v1"

	"purelb.io/purelb/internal/nodes/election"
)

// Read returns what o says of its node. The Lease is alive at first.
func Read(o *coordinationv1.Lease) election.Leased {
	agent, told := o.Annotations[AnnotationAgent]
	l := election.Leased{
		Record: election.Record{Node: Node(o), Subnets: Subnets(o), Own: Addresses(o), Draining: Draining(o)},
		Alive:  true, Unconfigured: told && agent == "",
		Unable: parseAddresses(o.Annotations[AnnotationUnable], maxUnable), Weights: Weights(o),
	}
	macs, _ := MACs(o)
	for _, m := range macs {
		l.MACs = append(l.MACs, m)
	}
	return l
}

// Node returns the name of the node to which o belongs.
func Node(o *coordinationv1.Lease) string {
	node, _ := nodeOf(o)
	return node
}

// Subnets returns the networks in o.
func Subnets(o *coordinationv1.Lease) []netip.Prefix {
	return parseSubnets(o.Annotations[AnnotationSubnets])
}

// Addresses returns the node's own addresses in o.
func Addresses(o *coordinationv1.Lease) []netip.Addr {
	return parseAddresses(o.Annotations[AnnotationAddresses], maxAddresses)
}

// Gateways returns the routers of the node's default routes in o.
func Gateways(o *coordinationv1.Lease) []netip.Addr {
	return parseAddresses(o.Annotations[AnnotationGateways], maxGateways)
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
