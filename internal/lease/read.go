package lease

import (
	"net/netip"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// Subnets returns the networks that o names.
func Subnets(o *coordinationv1.Lease) []netip.Prefix {
	return parseSubnets(o.Annotations[AnnotationSubnets])
}
