package service

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"purelb.io/purelb/internal/addr"
)

// Policy says how many of the families that a Service wants it must get.
type Policy string

const (
	// All families or none: RequireDualStack, and a single family.
	All Policy = "all"
	// Some families are better than none: PreferDualStack.
	Some Policy = "some"
	// One family, the first that there is an address of: a Service that says
	// nothing of families.
	One Policy = "one"
)

// Request is what a Service asks for, and what it holds.
type Request struct {
	Namespace, Name string
	// UID tells the Service from others that have had its name.
	UID types.UID
	// Created orders those who wait for the same address.
	Created time.Time
	// Ownership says whose the Service is, and which addresses PureLB gave it.
	Ownership
	// Leaving says that the Service is being deleted, so that it keeps what
	// it has and gets nothing more.
	Leaving bool

	// Families are those wanted, in the order that the addresses shall have.
	Families []addr.Family
	Policy   Policy
	// Group is the ServiceGroup asked for, or "".
	Group string
	// Asked are the addresses asked for, of different families. ByField says
	// that it was by the deprecated spec.loadBalancerIP.
	Asked   []netip.Addr
	ByField bool
	// Malformed says what cannot be understood, and how to mend it, or "".
	Malformed string
	// SharingKey is that of AnnotationSharing, or "".
	SharingKey string
	// Selector is that of the Service, as text that is the same for the same
	// selector. It is "" for a Service without one, and without SharingKey.
	Selector string
	// Ports are those of the Service, sorted, each once.
	Ports []Port
	// Labels are those of the Service.
	Labels map[string]string
	// Hostname is the DNS name that external-dns gives to the Service, or "".
	Hostname string
	// MultiPool is AnnotationMultiPool, or nil: then it is for the group to say.
	MultiPool *bool
	// Reevaluate is AnnotationReevaluate: addresses that the Service would
	// not get today are to be replaced.
	Reevaluate bool

	// Held are the addresses in the status that the Service has by right: those
	// that PureLB gave, or all when the Service is another's.
	Held []netip.Addr
	// From, PoolType and SkipIPv6DAD are the annotations as they stand.
	From, PoolType string
	SkipIPv6DAD    bool
	// Records are the objects of IPAM systems that hold addresses, as the Service says.
	Records map[netip.Addr]string
	// LocalPolicy is externalTrafficPolicy Local, and AllowLocal says that
	// AnnotationAllowLocal is there.
	LocalPolicy, AllowLocal bool
}

// Port is one that a Service listens on.
type Port struct {
	// Protocol is TCP, UDP or SCTP.
	Protocol string
	Number   int32
}

// Key is the name by which a Service is known: "namespace/name".
func (r Request) Key() string { return r.Namespace + "/" + r.Name }

// Wants reports whether f is one of the families wanted.
func (r Request) Wants(f addr.Family) bool {
	return slices.Contains(r.Families, f)
}

// Left returns r as the request of a Service that is left to another controller.
func (r Request) Left(reason string) Request {
	r.Owner, r.Reason = Anothers, reason
	r.Strange = slices.Concat(r.Shown, r.Strange)
	r.Held, r.Shown = r.Strange, nil
	return r
}

// Read reads svc. byDefault says that Services without a class are ours.
func Read(svc *corev1.Service, byDefault bool) Request {
	r := Request{
		Namespace:   svc.Namespace,
		Name:        svc.Name,
		UID:         svc.UID,
		Created:     svc.CreationTimestamp.Time,
		Ownership:   OwnershipOf(svc, byDefault),
		Leaving:     svc.DeletionTimestamp != nil,
		Group:       cmp.Or(annotation(svc, AnnotationGroup), annotation(svc, AnnotationPool)),
		SharingKey:  svc.Annotations[AnnotationSharing],
		Selector:    Selector(svc),
		Ports:       ports(svc.Spec.Ports),
		Labels:      svc.Labels,
		Hostname:    hostname(svc),
		Reevaluate:  annotation(svc, AnnotationReevaluate) == "true",
		From:        svc.Annotations[AnnotationAllocatedFrom],
		PoolType:    svc.Annotations[AnnotationPoolType],
		SkipIPv6DAD: svc.Annotations[AnnotationSkipIPv6DAD] == "true",
		LocalPolicy: LocalPolicy(svc),
		Records:     recordsOf(svc),
	}
	r.Held = r.Shown
	if r.Owner == Anothers {
		r.Held = r.Strange
	}
	r.Families, r.Policy = families(svc.Spec)
	_, r.AllowLocal = svc.Annotations[AnnotationAllowLocal]
	if text, ok := svc.Annotations[AnnotationMultiPool]; ok {
		on := strings.TrimSpace(text) == "true"
		r.MultiPool = &on
	}
	var err error
	if r.Asked, r.ByField, err = asked(svc); err != nil {
		r.Malformed = err.Error()
	}
	return r
}

// hostname returns the first DNS name of the annotation that external-dns reads, or "".
func hostname(svc *corev1.Service) string {
	names, _, _ := strings.Cut(cmp.Or(annotation(svc, AnnotationHostname), annotation(svc, annotationOldHostname)), ",")
	return strings.TrimSpace(names)
}

func annotation(svc *corev1.Service, name string) string {
	return strings.TrimSpace(svc.Annotations[name])
}

// families returns the families that spec wants, and how badly. Without any, it
// is one address, rather of IPv6.
func families(spec corev1.ServiceSpec) ([]addr.Family, Policy) {
	var wanted []addr.Family
	for _, f := range spec.IPFamilies {
		switch f {
		case corev1.IPv4Protocol:
			wanted = append(wanted, addr.V4)
		case corev1.IPv6Protocol:
			wanted = append(wanted, addr.V6)
		}
	}
	switch p := spec.IPFamilyPolicy; {
	case len(wanted) == 0:
		return []addr.Family{addr.V6, addr.V4}, One
	case p != nil && *p == corev1.IPFamilyPolicyPreferDualStack:
		return wanted, Some
	default:
		return wanted, All
	}
}

// ports are those of a spec as they stand in a Request. A port without a
// protocol is one of TCP.
func ports(in []corev1.ServicePort) []Port {
	var out []Port
	for _, p := range in {
		out = append(out, Port{Protocol: cmp.Or(string(p.Protocol), string(corev1.ProtocolTCP)), Number: p.Port})
	}
	slices.SortFunc(out, Port.compare)
	return slices.Compact(out)
}

// compare orders ports by number, then by protocol.
func (p Port) compare(q Port) int {
	return cmp.Or(cmp.Compare(p.Number, q.Number), cmp.Compare(p.Protocol, q.Protocol))
}
