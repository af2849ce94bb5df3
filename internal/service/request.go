package service

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"purelb.io/purelb/internal/addr"
)

// Policy says how many of its families a Service must get.
type Policy string

const (
	// All families or none: RequireDualStack, and a single family.
	All Policy = "all"
	// Some families are better than none: PreferDualStack.
	Some Policy = "some"
	// One family: the first one that has an address. It is for a Service that names
	// no families.
	One Policy = "one"
)

// Request is the request of a Service, with the addresses that the Service holds.
type Request struct {
	Namespace, Name string
	// UID distinguishes the Service from earlier ones of the same name.
	UID types.UID
	// Created orders the Services that wait for the same address.
	Created time.Time
	// Ownership says whose the Service is, and which addresses PureLB gave it.
	Ownership
	// Adopt says that another controller gave the Service its addresses, and that its user asks
	// PureLB to adopt it. Legacy says that only the annotations of the first versions of PureLB,
	// which anybody can write, say that PureLB gave them.
	Adopt, Legacy bool
	// NotAdopted is the reason of the condition of a Service that PureLB cannot adopt, or "".
	// Reason has the message.
	NotAdopted string
	// Leaving says that the Service is being deleted. It keeps its addresses and
	// gets no others.
	Leaving bool
	// Dying says why a Service that is being deleted is still there, see Dying.
	Dying string
	// Bound says that the Service has the Finalizer.
	Bound bool

	// Families are the families that the Service wants, in the order that its
	// addresses must have.
	Families []addr.Family
	Policy   Policy
	// Group is the ServiceGroup that the Service names, or "".
	Group string
	// Asked are the addresses that the Service asks for, of different families.
	// ByField says that it uses the deprecated spec.loadBalancerIP.
	Asked   []netip.Addr
	ByField bool
	// Unread are sentences about annotations that mean nothing to PureLB although their author
	// seems to expect something.
	Unread []string
	// External are the addresses in spec.externalIPs.
	External []netip.Addr
	// Malformed says what cannot be read, and how to correct it, or "".
	Malformed string
	// SharingKey is the value of AnnotationSharing, or "".
	SharingKey string
	// Selector is the selector of the Service, as text; equal selectors have equal
	// texts. It is "" for a Service without a selector or without SharingKey.
	Selector string
	// Ports are the ports of the Service, sorted, without repetitions.
	Ports []Port
	// Labels are the labels of the Service.
	Labels map[string]string
	// Hostname is the DNS name that external-dns gives to the Service, or "".
	Hostname string
	// MultiPool is AnnotationMultiPool. It is nil if the group decides.
	MultiPool *bool
	// Reevaluate is AnnotationReevaluate: it asks to replace addresses that the
	// Service would not get today. Reevaluated says that the annotation is there, and that it has
	// had its effect: a tool sets it again and again.
	Reevaluate, Reevaluated bool

	// Held are the addresses that the Service has by right: Shown, or if another controller decides,
	// all those in the status and the record.
	Held []netip.Addr
	// Origin is that of the Record.
	Origin
	// LocalPolicy says that externalTrafficPolicy is Local. AllowLocal says that
	// AnnotationAllowLocal is present.
	LocalPolicy, AllowLocal bool
}

// Port is a port on which a Service listens.
type Port struct {
	// Protocol is TCP, UDP or SCTP.
	Protocol string
	Number   int32
}

func (p Port) String() string { return fmt.Sprintf("%d/%s", p.Number, p.Protocol) }

// Key returns the name of the Service as "namespace/name".
func (r Request) Key() string { return r.Namespace + "/" + r.Name }

// Wants reports whether the Service wants addresses of family f.
func (r Request) Wants(f addr.Family) bool {
	return slices.Contains(r.Families, f)
}

// Left returns r as the request of a Service that is left to another controller.
func (r Request) Left(reason string) Request {
	r.Owner, r.Reason = Anothers, reason
	r.Strange = slices.Concat(r.Shown, r.Strange)
	r.Held, r.Shown = r.leftovers(), nil
	return r
}

// leftovers returns what a Service of another controller has: the addresses in its status, and those of
// its record. If that controller empties the status before the allocator has removed the record, agents
// announce the latter.
func (r Request) leftovers() []netip.Addr {
	if !r.Recorded {
		return r.Strange
	}
	all := slices.Clone(r.Strange)
	for _, a := range r.Vouched {
		if !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	return all
}

// Adopted returns r as the request of a Service that PureLB takes over from another controller, with
// all addresses that its status shows.
func (r Request) Adopted() Request {
	r.Owner, r.Reason = Adopted, ""
	r.Vouched, r.Shown, r.Held, r.Strange = r.Strange, r.Strange, r.Strange, nil
	return r
}

// Read reads svc.
func (ru Rules) Read(svc *corev1.Service) Request {
	given, recorded := RecordOf(svc)
	group, _ := ru.asks(svc, AnnotationGroup)
	key, _ := ru.asks(svc, AnnotationSharing)
	r := Request{
		Namespace:   svc.Namespace,
		Name:        svc.Name,
		UID:         svc.UID,
		Created:     svc.CreationTimestamp.Time,
		Ownership:   ownershipOf(svc, ru.ByDefault, given, recorded),
		Leaving:     svc.DeletionTimestamp != nil,
		Bound:       Bound(svc),
		Dying:       Dying(svc),
		Group:       cmp.Or(annotation(svc, AnnotationGroup), annotation(svc, AnnotationPool), group),
		SharingKey:  cmp.Or(svc.Annotations[AnnotationSharing], key),
		Selector:    Selector(svc),
		Ports:       ports(svc.Spec.Ports),
		Labels:      svc.Labels,
		Hostname:    hostname(svc),
		Origin:      given.Origin,
		LocalPolicy: LocalPolicy(svc),
		Unread:      ru.unread(svc),
		External:    External(svc),
	}
	if annotation(svc, AnnotationReevaluate) == "true" {
		r.Reevaluate, r.Reevaluated = !given.Reevaluated, given.Reevaluated
	}
	r.Held = r.Shown
	if r.Owner == Anothers {
		r.Held = r.leftovers()
		candidate := !r.Unfit && r.Classless && len(r.Strange) > 0
		r.Adopt = candidate && AsksAdoption(svc)
		r.Legacy = candidate && !recorded && !listed(svc) && Branded(svc)
	}
	r.Families, r.Policy = families(svc.Spec)
	_, r.AllowLocal = svc.Annotations[AnnotationAllowLocal]
	if text, ok := svc.Annotations[AnnotationMultiPool]; ok {
		on := strings.TrimSpace(text) == "true"
		r.MultiPool = &on
	}
	var err error
	if r.Asked, r.ByField, err = ru.asked(svc); err != nil {
		r.Malformed = err.Error()
	}
	return r
}

// dnsName matches the DNS names that IPAM systems accept.
var dnsName = regexp.MustCompile(`^(\*|[0-9A-Za-z_-]+)(\.[0-9A-Za-z_-]+)*\.?$`)

// hostname returns the first DNS name of the annotation that external-dns reads, or "". It skips
// other text, because an IPAM system would refuse the address for it.
func hostname(svc *corev1.Service) string {
	const longest = 255
	for name := range strings.SplitSeq(cmp.Or(annotation(svc, AnnotationHostname), annotation(svc, annotationOldHostname)), ",") {
		if name = strings.TrimSpace(name); len(name) <= longest && dnsName.MatchString(name) {
			return name
		}
	}
	return ""
}

func annotation(svc *corev1.Service, name string) string {
	return strings.TrimSpace(svc.Annotations[name])
}

// families returns the families that spec wants, and how many of them it needs. If
// spec names none, it wants one address, preferably IPv6.
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

// ports returns the ports of a spec for a Request. A port without a protocol is a
// TCP port.
func ports(in []corev1.ServicePort) []Port {
	var out []Port
	for _, p := range in {
		out = append(out, Port{Protocol: cmp.Or(string(p.Protocol), string(corev1.ProtocolTCP)), Number: p.Port})
	}
	slices.SortFunc(out, Port.Compare)
	return slices.Compact(out)
}

// Compare orders ports by number, so that people can find them, and then by protocol.
func (p Port) Compare(q Port) int {
	return cmp.Or(cmp.Compare(p.Number, q.Number), cmp.Compare(p.Protocol, q.Protocol))
}
