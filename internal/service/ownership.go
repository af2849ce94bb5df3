package service

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
)

// Owner says which controller decides about the addresses of a Service.
type Owner string

const (
	// Ours: PureLB decides. The status shows only addresses that PureLB gave.
	Ours Owner = "ours"
	// Adopted: PureLB decides. An earlier version gave the addresses and wrote no
	// record of them.
	Adopted Owner = "adopted"
	// Contested: PureLB decides, but the status shows addresses that PureLB did not
	// give.
	Contested Owner = "contested"
	// Anothers: another controller decides. PureLB writes to the Service only to
	// remove its own annotations and condition.
	Anothers Owner = "another's"
)

// Ownership is what the allocator and the agents find out about a Service before they look at its
// addresses.
type Ownership struct {
	Owner Owner
	// Reason says why another controller decides. Otherwise it is "". Unfit says that PureLB cannot
	// decide, whatever the status shows.
	Reason string
	Unfit  bool
	// Recorded says that the Service has a Record, see RecordOf.
	Recorded bool
	// Vouched are the addresses that PureLB gave, whether the status shows them or
	// not. If another controller decides now, they are leftovers.
	Vouched []netip.Addr
	// Shown are the vouched addresses that the status shows, in its order, or that it showed until
	// another program emptied it: see Emptied. Agents announce these, and the allocator keeps them
	// for the Service. It is empty if another controller decides.
	Shown []netip.Addr
	// Strange are the other addresses that the status shows.
	Strange []netip.Addr
	// Classless says that the Service names no load balancer class.
	Classless bool
	// Contesting says that an allocator has restored the status several times, and
	// that another controller changed it each time.
	Contesting bool
}

// ReasonContested is the reason of ConditionAllocated if another controller keeps
// changing the status.
const ReasonContested = "StatusContested"

// Displaced reports whether a contested Service without a class shows addresses of another
// controller and none of ours. An allocator that has just started leaves such a Service to the
// other controller. But if an earlier allocator has already contested the status, the contest
// continues: a restart does not decide it.
func (o Ownership) Displaced() bool {
	return o.Owner == Contested && o.Classless && len(o.Shown) == 0 && !o.Contesting
}

// OwnershipOf says which controller decides about svc. byDefault says that new
// Services without a class are ours.
//
// When byDefault is turned off, a Service without a class keeps the addresses that PureLB gave it.
// It stays ours until another controller changes its addresses.
func OwnershipOf(svc *corev1.Service, byDefault bool) Ownership {
	given, recorded := RecordOf(svc)
	return ownershipOf(svc, byDefault, given, recorded)
}

func ownershipOf(svc *corev1.Service, byDefault bool, given Record, recorded bool) Ownership {
	o := Ownership{Reason: unfit(svc), Vouched: given.Addresses, Recorded: recorded, Classless: svc.Spec.LoadBalancerClass == nil}
	if c := meta.FindStatusCondition(svc.Status.Conditions, ConditionAllocated); c != nil {
		o.Contesting = c.Reason == ReasonContested
	}
	for _, a := range Ingress(svc) {
		if slices.Contains(o.Vouched, a) {
			o.Shown = append(o.Shown, a)
		} else {
			o.Strange = append(o.Strange, a)
		}
	}
	o.Unfit = o.Reason != ""
	if !o.Unfit && o.Classless {
		o.Reason = o.left(svc, byDefault)
	}
	o.Shown = append(o.Shown, Emptied(svc)...)
	switch {
	case o.Reason != "":
		o.Owner, o.Shown, o.Strange = Anothers, nil, Ingress(svc)
	case len(o.Strange) > 0:
		o.Owner = Contested
	case len(o.Shown) > 0 && !recorded:
		o.Owner = Adopted
	default:
		o.Owner = Ours
	}
	return o
}

// left returns the reason why svc, which names no class, is left to another
// controller, or "".
func (o Ownership) left(svc *corev1.Service, byDefault bool) string {
	intact := len(o.Shown) > 0 && len(o.Strange) == 0 && (o.Recorded || listed(svc))
	given := len(svc.Status.LoadBalancer.Ingress) > 0 && len(o.Shown) == 0
	switch {
	case !byDefault && !intact && (!o.Recorded || !AsksAdoption(svc)):
		return "no loadBalancerClass, and PureLB is not the default announcer"
	case given && (len(o.Vouched) == 0 || !o.Recorded && !Branded(svc)):
		return ReasonGiven
	}
	return ""
}

// AsksAdoption reports whether the user of svc asks PureLB to adopt it.
func AsksAdoption(svc *corev1.Service) bool { return annotation(svc, AnnotationAdopt) == "true" }

// ReasonGiven is the Reason of a Service without a class whose status shows addresses of another
// controller.
const ReasonGiven = "another controller gave it its addresses"

// ReasonHeadless is the Reason of a Service without a cluster IP.
const ReasonHeadless = "headless"

// unfit returns the reason why svc can never be ours, or "".
func unfit(svc *corev1.Service) string {
	class := svc.Spec.LoadBalancerClass
	switch {
	case svc.Spec.Type != corev1.ServiceTypeLoadBalancer:
		return "type is " + string(svc.Spec.Type) + ", not LoadBalancer"
	case svc.Spec.ClusterIP == corev1.ClusterIPNone, svc.Spec.ClusterIP == "":
		return ReasonHeadless
	case class != nil && *class != ClassV1 && *class != ClassV2:
		return "loadBalancerClass is " + *class
	case annotation(svc, AnnotationLeave) == "true":
		return "the annotation " + AnnotationLeave + " leaves it to another controller"
	}
	return ""
}

// listed reports whether an older version named the addresses that it gave to svc, in the
// annotation with their list or in the condition.
func listed(svc *corev1.Service) bool {
	return svc.Annotations[AnnotationAllocatedAddresses] != "" ||
		meta.FindStatusCondition(svc.Status.Conditions, ConditionAllocated) != nil
}

// named returns the addresses at the beginning of the message of our condition.
func named(message string) []netip.Addr {
	list, ok := strings.CutPrefix(message, assigned(nil))
	if !ok {
		return nil
	}
	list, _, _ = strings.Cut(list, " from pool ")
	list, _, _ = strings.Cut(list, "; ")
	return ParseAddresses(list)
}

// ParseAddresses reads addresses that are separated by commas, as in
// AnnotationAllocatedAddresses. It skips addresses that no Service can have, and
// repetitions.
func ParseAddresses(text string) []netip.Addr {
	var addresses []netip.Addr
	for entry := range strings.SplitSeq(text, ",") {
		if a, ok := usable(strings.TrimSpace(entry)); ok && len(addresses) < mostAddresses && !slices.Contains(addresses, a) {
			addresses = append(addresses, a)
		}
	}
	return addresses
}
