// Package service reads the request and the addresses of a Kubernetes Service, and writes the
// result into it.
//
// It knows the annotations, the spec and the status of a Service in the notation of every
// generation of PureLB. It knows nothing of pools, of the holders of addresses, or of the API
// server. Its input is a Service as a value. Its output is a change, as the bytes of a merge patch.
//
// Read the files in this order:
//
//	service.go     the names of annotations and classes
//	request.go     what a Service asks for; asked.go reads addresses, others.go the annotations of
//	               other products
//	ownership.go   which controller decides about it; record.go says what PureLB gave to it
//	result.go      what its status must show; patch.go writes that
//	finalizer.go   when it may go; dying.go says why it is still there
//	announcing.go  which nodes announce its addresses
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
	// AnnotationPool is the older name of AnnotationGroup, which takes precedence.
	AnnotationPool = "purelb.io/address-pool"
	// AnnotationAddresses asks for one address, or one of each family.
	AnnotationAddresses = "purelb.io/addresses"
	// AnnotationSharing is a key. Services with the same key may share an address.
	AnnotationSharing = "purelb.io/allow-shared-ip"
	// AnnotationMultiPool is "true" to get one address of every pool of the group.
	// Any other value gets one address of each family, whatever the group says.
	AnnotationMultiPool = "purelb.io/multi-pool"
	// AnnotationReevaluate is "true" to replace addresses that the Service would
	// not get today. PureLB removes the annotation after that, but not for ever if a tool sets it
	// again and again.
	AnnotationReevaluate = "purelb.io/re-evaluate"
	// AnnotationAdopt is "true" to have PureLB serve a Service that another controller served, at
	// the addresses that it shows. AnnotationLeave is "true" to leave a Service to another
	// controller, with its addresses. It takes precedence.
	AnnotationAdopt = "purelb.io/adopt"
	AnnotationLeave = "purelb.io/leave"
	// AnnotationNode names the node that should have the local addresses.
	AnnotationNode = "purelb.io/node"
	// AnnotationAllowLocal, with any value, keeps the external traffic policy
	// Local, although a local address is on one node only.
	AnnotationAllowLocal = "purelb.io/allow-local"

	// AnnotationHostname is read by external-dns: the DNS names of the Service,
	// separated by commas. annotationOldHostname is its older name.
	AnnotationHostname    = "external-dns.kubernetes.io/hostname"
	annotationOldHostname = "external-dns.alpha.kubernetes.io/hostname"
)

// Annotations that PureLB sets. They are for people, and for programs of older versions. Programs
// of this version read the Record.
const (
	// AnnotationAllocatedBy is the brand. Its value is Brand on Services whose
	// addresses PureLB allocated.
	AnnotationAllocatedBy = "purelb.io/allocated-by"
	// AnnotationAllocatedAddresses lists the addresses that PureLB gave, separated
	// by ",". It is there whenever the brand is.
	AnnotationAllocatedAddresses = "purelb.io/allocated-addresses"
	// AnnotationAllocatedFrom names the groups, separated by ", ".
	AnnotationAllocatedFrom = "purelb.io/allocated-from"
	// AnnotationPoolType is PoolLocal or PoolRemote.
	AnnotationPoolType = "purelb.io/pool-type"
	// AnnotationSkipIPv6DAD is "true", or absent.
	AnnotationSkipIPv6DAD = "purelb.io/skip-ipv6-dad"
	// AnnotationIPAMRecord says which object of an IPAM system holds which address,
	// as ADDRESS=URL, separated by spaces. It has no entry for an address if the
	// system names no object for it.
	AnnotationIPAMRecord = "purelb.io/ipam-record"
)

// Brand is the value of AnnotationAllocatedBy.
const Brand = "PureLB"

// Values of AnnotationPoolType. They say what the addresses were when they were
// allocated.
const (
	PoolLocal  = "local"
	PoolRemote = "remote"
)

// Load balancer classes of PureLB: the first is that of the API purelb.io/v1, the
// second that of purelb.io/v2.
const (
	ClassV1 = "purelb.io/purelb"
	ClassV2 = "purelb.io/purelbv2"
)

// Branded reports whether the annotations of svc say that PureLB allocated its addresses.
func Branded(svc *corev1.Service) bool {
	return svc.Annotations[AnnotationAllocatedBy] == Brand
}

// mostAddresses limits how many addresses of a Service are read. No group has that many ranges.
// Without the limit, a client that may write a status could keep all agents busy.
const mostAddresses = 1024

// Ingress returns the addresses in the status of svc, in its order. It skips
// entries with a host name, and addresses that no Service can have.
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

// usable reads an address, and reports whether a Service can have it.
func usable(text string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(text)
	return a.Unmap(), err == nil && addr.Assignable(a)
}

// LocalPolicy reports whether the external traffic policy of svc is Local: only
// nodes with an endpoint take its traffic.
func LocalPolicy(svc *corev1.Service) bool {
	return svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

// Selector returns the selector of the pods of svc, if svc shares its addresses. It is text; equal
// selectors have equal texts. It is "" for a Service without a selector, because the pods of such a
// Service are unknown.
func Selector(svc *corev1.Service) string {
	if sharingKey(svc) == "" {
		return ""
	}
	return labels.Set(svc.Spec.Selector).String()
}
