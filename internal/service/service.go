// Package service reads a Kubernetes Service into what it asks for and what it
// holds, and writes what it was given back into it.
//
// It knows the annotations, the spec and the status of a Service in the
// spelling of every generation of PureLB. It knows nothing of pools, of who
// holds which address, or of the API server: a Service comes in as a value, and
// a change to it goes out as the bytes of a merge patch.
package service

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"purelb.io/purelb/internal/addr"
)

// Annotations that users set.
const (
	// AnnotationGroup names the ServiceGroup that addresses come from.
	AnnotationGroup = "purelb.io/service-group"
	// AnnotationPool is the older name of AnnotationGroup, which wins.
	AnnotationPool = "purelb.io/address-pool"
	// AnnotationAddresses asks for one address, or one of each family.
	AnnotationAddresses = "purelb.io/addresses"
	// AnnotationSharing is a key; Services that have the same one may share
	// an address.
	AnnotationSharing = "purelb.io/allow-shared-ip"
	// AnnotationMultiPool is "true" for one address of every pool of the
	// group, and anything else for one of each family, whatever the group says.
	AnnotationMultiPool = "purelb.io/multi-pool"
	// AnnotationReevaluate is "true" to have addresses replaced that the
	// Service would not get today. It is taken off when that is done.
	AnnotationReevaluate = "purelb.io/re-evaluate"
	// AnnotationAllowLocal, with any value, leaves the external traffic policy
	// Local alone, although a local address is on one node only.
	AnnotationAllowLocal = "purelb.io/allow-local"

	// AnnotationHostname is what external-dns reads: the DNS names of the Service,
	// separated by commas. The other is its name of before.
	AnnotationHostname    = "external-dns.kubernetes.io/hostname"
	annotationOldHostname = "external-dns.alpha.kubernetes.io/hostname"
)

// Annotations that PureLB sets.
const (
	// AnnotationAllocatedBy is the brand: its value is Brand on Services whose
	// addresses PureLB allocated, and only those are announced.
	AnnotationAllocatedBy = "purelb.io/allocated-by"
	// AnnotationAllocatedAddresses stands beside the brand, and lists the
	// addresses that PureLB gave, separated by ",". Agents announce no others.
	AnnotationAllocatedAddresses = "purelb.io/allocated-addresses"
	// AnnotationAllocatedFrom names the groups, separated by ", ".
	AnnotationAllocatedFrom = "purelb.io/allocated-from"
	// AnnotationPoolType is PoolLocal or PoolRemote.
	AnnotationPoolType = "purelb.io/pool-type"
	// AnnotationSkipIPv6DAD is "true", or absent.
	AnnotationSkipIPv6DAD = "purelb.io/skip-ipv6-dad"
	// AnnotationIPAMRecord says which object of an IPAM system holds which address, as
	// ADDRESS=URL, separated by spaces. Addresses of which the system names no object
	// are not in it.
	AnnotationIPAMRecord = "purelb.io/ipam-record"
)

// Brand is the value of AnnotationAllocatedBy.
const Brand = "PureLB"

// Values of AnnotationPoolType: what the addresses were when they were
// allocated.
const (
	PoolLocal  = "local"
	PoolRemote = "remote"
)

// Load balancer classes that are ours: that of the API purelb.io/v1, and that
// of purelb.io/v2.
const (
	ClassV1 = "purelb.io/purelb"
	ClassV2 = "purelb.io/purelbv2"
)

// Branded reports whether PureLB allocated the addresses of svc.
func Branded(svc *corev1.Service) bool {
	return svc.Annotations[AnnotationAllocatedBy] == Brand
}

// mostAddresses is how many addresses of a Service are read, which is more than
// a group has ranges. Who may write a status must not be able to keep everybody
// busy with it.
const mostAddresses = 1024

// Ingress returns the addresses in the status of svc, in its order. Entries
// with a host name, or with what is no address that a Service can have, are
// passed over.
func Ingress(svc *corev1.Service) []netip.Addr {
	var addresses []netip.Addr
	all := svc.Status.LoadBalancer.Ingress
	for _, in := range all[:min(len(all), mostAddresses)] {
		if a, ok := usable(in.IP); ok && !slices.Contains(addresses, a) {
			addresses = append(addresses, a)
		}
	}
	return addresses
}

// usable reads an address that a Service can have.
func usable(text string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(text)
	return a.Unmap(), err == nil && addr.Assignable(a)
}

// LocalPolicy reports whether the external traffic policy of svc is Local: only
// nodes with an endpoint take its traffic.
func LocalPolicy(svc *corev1.Service) bool {
	return svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

// Selector is what selects the pods of svc, if it shares its addresses: text that
// is the same for the same selector. It is "" for a Service without a selector,
// whose pods cannot be told from it.
func Selector(svc *corev1.Service) string {
	if svc.Annotations[AnnotationSharing] == "" {
		return ""
	}
	return labels.Set(svc.Spec.Selector).String()
}
