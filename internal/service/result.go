package service

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConditionAllocated is the condition that says whether a Service has all the
// addresses that it must have, and why not.
const ConditionAllocated = "purelb.io/Allocated"

// Result is what a Service has: what its status and annotations shall say.
type Result struct {
	// Addresses are in the order that the status shall have.
	Addresses []netip.Addr
	// From, PoolType and SkipIPv6DAD are the annotations. Without addresses
	// they do not matter.
	From, PoolType string
	SkipIPv6DAD    bool
	// Allocated is the status of ConditionAllocated, with Reason and Message.
	Allocated       bool
	Reason, Message string
	// Reevaluated says that AnnotationReevaluate has had its effect and goes.
	Reevaluated bool
}

// condition is what r has to say. The time of the last transition is that of
// the condition of svc, if that has the same status.
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

// Having is the message of a condition: which addresses r has, if any, and more.
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

// assigned is how the message of a condition begins that tells of addresses. By
// that they are known to be ours when the brand is gone.
func assigned(addresses []netip.Addr) string {
	texts := make([]string, len(addresses))
	for i, a := range addresses {
		texts[i] = a.String()
	}
	return "Assigned " + strings.Join(texts, ", ")
}

// Says reports whether the condition of svc has this reason and message, so
// that they are no news.
func Says(svc *corev1.Service, reason, message string) bool {
	c := meta.FindStatusCondition(svc.Status.Conditions, ConditionAllocated)
	return c != nil && c.Reason == reason && c.Message == clip(message)
}

// clip cuts text to a length that a person may read, and that the API server
// takes.
func clip(text string) string {
	const most = 4096
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}

// ingress is the status of a load balancer with these addresses.
func ingress(addresses []netip.Addr) []corev1.LoadBalancerIngress {
	mode := corev1.LoadBalancerIPModeVIP
	var in []corev1.LoadBalancerIngress
	for _, a := range addresses {
		in = append(in, corev1.LoadBalancerIngress{IP: a.String(), IPMode: &mode})
	}
	return in
}

// saysIngress reports whether the status of svc has these addresses, in this
// order, and nothing else. That the mode is VIP may go without saying.
func saysIngress(svc *corev1.Service, addresses []netip.Addr) bool {
	return slices.EqualFunc(svc.Status.LoadBalancer.Ingress, addresses, func(in corev1.LoadBalancerIngress, a netip.Addr) bool {
		return in.IP == a.String() && in.Hostname == "" && (in.IPMode == nil || *in.IPMode == corev1.LoadBalancerIPModeVIP)
	})
}

// Describe is r as an event tells it. It is the same for the same addresses, so
// that events add up.
func (r Result) Describe() string {
	entries := make([]string, len(r.Addresses))
	for i, a := range r.Addresses {
		entries[i] = "{IP:" + a.String() + " Hostname: IPMode:VIP Ports:[]}"
	}
	return "{Ingress:[" + strings.Join(entries, " ") + "]}"
}
