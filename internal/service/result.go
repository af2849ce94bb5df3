package service

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"purelb.io/purelb/internal/addr"
)

// ConditionAllocated is the condition that says whether a Service has all the
// addresses that it needs. If not, it says why.
const ConditionAllocated = "purelb.io/Allocated"

// Result is the outcome for a Service: what its status and annotations must show.
type Result struct {
	// Addresses are in the order that the status must have.
	Addresses []netip.Addr
	// Origin does not matter without addresses.
	Origin
	// Allocated is the status of ConditionAllocated, with Reason and Message.
	Allocated       bool
	Reason, Message string
	// Warnings are the parts of Message that are told in events of their own.
	Warnings []string
	// Reevaluated says that AnnotationReevaluate has had its effect. It is removed, unless
	// KeepReevaluate says that a tool sets it again and again: then the Record says that it has no
	// more effect.
	Reevaluated, KeepReevaluate bool
}

// record returns what the status says that r gave.
func (r Result) record() Record {
	given := Record{Reevaluated: r.KeepReevaluate}
	if len(r.Addresses) > 0 {
		given.Addresses, given.Origin = r.Addresses, r.Origin
	}
	return given
}

// condition returns the condition of r.
func (r Result) condition(svc *corev1.Service, now time.Time) metav1.Condition {
	c := metav1.Condition{
		Type:               ConditionAllocated,
		Status:             metav1.ConditionFalse,
		ObservedGeneration: svc.Generation,
		LastTransitionTime: metav1.NewTime(now),
		Reason:             r.Reason,
		Message:            clip(r.Message),
	}
	if r.Allocated {
		c.Status = metav1.ConditionTrue
	}
	return c
}

// Having returns the message of a condition: the addresses of r, if any, and more.
func (r Result) Having(more string) string {
	if len(r.Addresses) == 0 {
		return more
	}
	has := assigned(r.Addresses)
	if r.From != "" {
		has += " from pool " + r.From
	}
	if more != "" {
		has += "; " + more
	}
	return has
}

// And returns the message of r, followed by more.
func (r Result) And(more string) string {
	if r.Message == "" {
		return more
	}
	return r.Message + "; " + more
}

// assigned returns the beginning of the message of a condition that names addresses. If the brand
// is gone, the message proves that PureLB gave the addresses.
func assigned(addresses []netip.Addr) string { return "Assigned " + addr.Join(addresses, ", ") }

// Says reports whether the condition of svc already has this reason and message.
func Says(svc *corev1.Service, reason, message string) bool {
	c := meta.FindStatusCondition(svc.Status.Conditions, ConditionAllocated)
	return c != nil && c.Reason == reason && c.Message == clip(message)
}

// clip cuts text to a length that people can read and that the API server accepts.
func clip(text string) string {
	if len(text) <= mostMessage {
		return text
	}
	return strings.ToValidUTF8(text[:mostMessage], "") + cut
}

// mostMessage is the maximum length of a message.
const mostMessage = 4096

// cut is the end of a message that was too long.
const cut = "..."

// ingress returns the ingress that the status of svc must show: first addresses, in this order,
// then the entries of other controllers that have no address, such as host names. If another
// controller added something to the entry of one of addresses, such as ports, ingress keeps it. It
// drops entries with any other address.
func ingress(svc *corev1.Service, addresses []netip.Addr) []corev1.LoadBalancerIngress {
	present := svc.Status.LoadBalancer.Ingress
	var in []corev1.LoadBalancerIngress
	for _, a := range addresses {
		entry := corev1.LoadBalancerIngress{IP: a.String()}
		if i := slices.IndexFunc(present, func(p corev1.LoadBalancerIngress) bool { return p.IP == entry.IP }); i >= 0 {
			entry = present[i]
		}
		if entry.IPMode == nil || *entry.IPMode != corev1.LoadBalancerIPModeVIP {
			mode := corev1.LoadBalancerIPModeVIP
			entry.IPMode = &mode
		}
		in = append(in, entry)
	}
	for _, p := range present {
		if p.IP == "" {
			in = append(in, p)
		}
	}
	return in
}

// saysIngress reports whether the status of svc shows wanted. A missing mode means VIP.
func saysIngress(svc *corev1.Service, wanted []corev1.LoadBalancerIngress) bool {
	return slices.EqualFunc(svc.Status.LoadBalancer.Ingress, wanted, func(is, want corev1.LoadBalancerIngress) bool {
		if is.IPMode == nil {
			is.IPMode = want.IPMode
		}
		return reflect.DeepEqual(is, want)
	})
}
