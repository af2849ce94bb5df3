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
	return parseAddresses(o.Annotations[AnnotationAddresses])
}
