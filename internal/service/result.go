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
	// Records are the objects of IPAM systems that hold the Addresses.
	Records map[netip.Addr]string
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

// And returns the message of r, followed by more.
func (r Result) And(more string) string {
	if r.Message == "" {
		return more
	}
	return r.Message + "; " + more
}

// assigned is how the message of a condition begins that tells of addresses. By
// that they are known to be ours when the brand is gone.
func assigned(addresses []netip.Addr) string { return "Assigned " + texts(addresses, ", ") }

// texts writes addresses with separator between them.
func texts(addresses []netip.Addr, separator string) string {
	all := make([]string, len(addresses))
	for i, a := range addresses {
		all[i] = a.String()
	}
	return strings.Join(all, separator)
}

// Says reports whether the condition of svc has this reason and message, so
// that they are no news.
func Says(svc *corev1.Service, reason, message string) bool {
	c := meta.FindStatusCondition(svc.Status.Conditions, ConditionAllocated)
	if c == nil || c.Reason != reason {
		return false
	}
	said, _, touched := strings.Cut(c.Message, takeoverNote)
	return c.Message == clip(message) || touched && said == clipTo(message, mostBeforeTakeover)
}

// clip cuts text to a length that a person may read, and that the API server
// takes.
func clip(text string) string { return clipTo(text, mostMessage) }

// mostMessage is how long a message is at most, and mostBeforeTakeover how much of it
// stays beside the note of a takeover.
const mostMessage, mostBeforeTakeover = 4096, 3800

func clipTo(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}

// ingress returns what the status of svc shall show: addresses, in this order,
// and after them the entries of other controllers that have no address, such as a
// host name. What another controller says of one of addresses, such as its ports,
// stays. Any other address goes.
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

// saysIngress reports whether the status of svc shows wanted. That the mode is VIP
// may go without saying.
func saysIngress(svc *corev1.Service, wanted []corev1.LoadBalancerIngress) bool {
	return slices.EqualFunc(svc.Status.LoadBalancer.Ingress, wanted, func(is, want corev1.LoadBalancerIngress) bool {
		if is.IPMode == nil {
			is.IPMode = want.IPMode
		}
		return reflect.DeepEqual(is, want)
	})
}
