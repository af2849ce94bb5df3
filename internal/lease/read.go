package lease

import (
	"net/netip"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// Node returns the name of the node that o is of.
func Node(o *coordinationv1.Lease) string {
	node, _ := nodeOf(o)
	return node
}

// Subnets returns the networks that o names.
func Subnets(o *coordinationv1.Lease) []netip.Prefix {
	return parseSubnets(o.Annotations[AnnotationSubnets])
}

// Addresses returns the addresses that o says its node has itself.
func Addresses(o *coordinationv1.Lease) []netip.Addr {
	return parseAddresses(o.Annotations[AnnotationAddresses], maxAddresses)
}

// Gateways returns the routers that o says the default routes of its node lead to.
func Gateways(o *coordinationv1.Lease) []netip.Addr {
	return parseAddresses(o.Annotations[AnnotationGateways], maxGateways)
}

// Gossip returns where o says that its node gossips; the zero value if it does
// not.
func Gossip(o *coordinationv1.Lease) netip.AddrPort {
	place, err := netip.ParseAddrPort(o.Annotations[AnnotationGossip])
	if err != nil || place.Port() == 0 {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(place.Addr().Unmap().WithZone(""), place.Port())
}

// Draining says whether o asks for its node to be chosen only when there is no
// other.
func Draining(o *coordinationv1.Lease) bool { return o.Annotations[AnnotationDraining] != "" }
