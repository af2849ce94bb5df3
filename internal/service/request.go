package service

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

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
	// Created orders those who wait for the same address.
	Created time.Time
	// Foreign says why the Service is none of our business; "" when it is
	// ours.
	Foreign string
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

	// Held are the addresses in the status.
	Held []netip.Addr
	// From, PoolType and SkipIPv6DAD are the annotations as they stand.
	From, PoolType string
	SkipIPv6DAD    bool
	// LocalPolicy is externalTrafficPolicy Local.
	LocalPolicy bool
}

// Key is the name by which a Service is known: "namespace/name".
func (r Request) Key() string { return r.Namespace + "/" + r.Name }

// Wants reports whether f is one of the families wanted.
func (r Request) Wants(f addr.Family) bool {
	for _, w := range r.Families {
		if w == f {
			return true
		}
	}
	return false
}

// Read reads svc. byDefault says that Services without a class are ours.
func Read(svc *corev1.Service, byDefault bool) Request {
	r := Request{
		Namespace:   svc.Namespace,
		Name:        svc.Name,
		Created:     svc.CreationTimestamp.Time,
		Foreign:     Foreign(svc, byDefault),
		Leaving:     svc.DeletionTimestamp != nil,
		Group:       cmp.Or(annotation(svc, AnnotationGroup), annotation(svc, AnnotationPool)),
		SharingKey:  svc.Annotations[AnnotationSharing],
		Held:        Ingress(svc),
		From:        svc.Annotations[AnnotationAllocatedFrom],
		PoolType:    svc.Annotations[AnnotationPoolType],
		SkipIPv6DAD: svc.Annotations[AnnotationSkipIPv6DAD] == "true",
		LocalPolicy: LocalPolicy(svc),
	}
	r.Families, r.Policy = families(svc.Spec)
	var err error
	if r.Asked, r.ByField, err = asked(svc); err != nil {
		r.Malformed = err.Error()
	}
	return r
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

// asked returns the addresses that svc asks for, and whether it does so by
// spec.loadBalancerIP.
func asked(svc *corev1.Service) (addresses []netip.Addr, byField bool, err error) {
	if text := annotation(svc, AnnotationAddresses); text != "" {
		addresses, err = parseAsked(strings.Split(text, ","))
		if err != nil {
			return nil, false, fmt.Errorf("annotation %s: %w; write one address, or one of each family separated by a comma",
				AnnotationAddresses, err)
		}
		return addresses, false, nil
	}
	text := svc.Spec.LoadBalancerIP // deprecated, and still in use
	if text == "" {
		return nil, false, nil
	}
	if addresses, err = parseAsked([]string{text}); err != nil {
		return nil, false, fmt.Errorf("spec.loadBalancerIP: %w; write one address, or better the annotation %s instead",
			err, AnnotationAddresses)
	}
	return addresses, true, nil
}

// parseAsked reads addresses, of which there must be one of each family at
// most.
func parseAsked(texts []string) ([]netip.Addr, error) {
	var addresses []netip.Addr
	for _, text := range texts {
		a, err := parseAddress(text)
		if err != nil {
			return nil, err
		}
		for _, b := range addresses {
			if f := addr.FamilyOf(a); f == addr.FamilyOf(b) {
				return nil, fmt.Errorf("%s and %s are both %s", b, a, f)
			}
		}
		addresses = append(addresses, a)
	}
	return addresses, nil
}

func parseAddress(text string) (netip.Addr, error) {
	text = strings.TrimSpace(text)
	a, err := netip.ParseAddr(text)
	switch {
	case text == "":
		return a, fmt.Errorf("an address is missing")
	case err != nil:
		return a, fmt.Errorf("%s is not an IP address", addr.Quote(text))
	case a.Zone() != "":
		return a, fmt.Errorf("%s has a zone, and service addresses have none", addr.Quote(text))
	}
	return a.Unmap(), nil
}
