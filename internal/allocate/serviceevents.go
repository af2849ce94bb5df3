package allocate

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/service"
)

// reportChanges reports what has changed on a Service. svc is the Service before the write.
func (s *services) reportChanges(svc *corev1.Service, r service.Request, d decision) {
	s.reportAssigned(svc, r, d)
	s.reportLost(svc, r, d)
	for _, n := range d.Notes {
		kind := corev1.EventTypeNormal
		if n.Warning {
			kind = corev1.EventTypeWarning
		}
		s.event(svc, kind, n.Reason, n.Message)
	}
	said := meta.FindStatusCondition(svc.Status.Conditions, service.ConditionAllocated)
	for _, w := range d.Result.Warnings {
		if said == nil || !strings.Contains(said.Message, w) {
			s.event(svc, corev1.EventTypeWarning, "ConfigurationWarning", w)
		}
	}
	for _, c := range d.Counts {
		s.metrics.allocated(c)
	}
	if d.Result.Reevaluated {
		s.log.Info("reevaluated", "service", r.Key(), "address", addr.Join(d.Result.Addresses, ", "))
	}
	s.reportRefusal(svc, r, d)
}

// Reasons of the events about allocations.
const (
	eventAllocated = "IPAllocated"
	eventReleased  = "IPReleased"
)

// reportAssigned writes an event for each new address.
func (s *services) reportAssigned(svc *corev1.Service, r service.Request, d decision) {
	fresh := addr.Without(d.Result.Addresses, r.Held)
	if len(fresh) == 0 {
		return
	}
	if slices.ContainsFunc(d.Counts, func(c ipam.Count) bool { return c.Kind == ipam.CountMultiPool }) {
		s.event(svc, corev1.EventTypeNormal, eventAllocated, multiPool(len(fresh), len(d.Result.Addresses), d.Result.From))
	} else {
		for _, a := range fresh {
			s.event(svc, corev1.EventTypeNormal, eventAllocated, fmt.Sprintf("Assigned IP %s from pool %s", a, d.Result.From))
		}
	}
	s.log.Info("addressAssigned", "service", r.Key(), "address", addr.Join(fresh, ", "), "group", d.Result.From)
}

// multiPool returns the message of the event for a Service that gets one address of every
// range of a group. fresh of its total addresses are new.
func multiPool(fresh, total int, group string) string {
	if fresh == total {
		return fmt.Sprintf("Multi-pool: assigned %d IPs from pool %s", total, group)
	}
	return fmt.Sprintf("Incremental multi-pool: added %d IPs (total %d) from pool %s", fresh, total, group)
}

// reportLost reports addresses that the Service has lost, because it no longer asks for their family
// or because they were replaced.
func (s *services) reportLost(svc *corev1.Service, r service.Request, d decision) {
	if len(d.ended) == 0 {
		return
	}
	for _, a := range d.ended {
		s.reportReleased(svc, a, whyEnded(a, r, addr.Without(d.Result.Addresses, r.Held)))
	}
	s.log.Info("addressReleased", "service", r.Key(), "address", addr.Join(d.ended, ", "))
}

// whyEnded returns the reason why the Service of r lost a. fresh are its new addresses.
func whyEnded(a netip.Addr, r service.Request, fresh []netip.Addr) string {
	f := addr.FamilyOf(a)
	if !r.Wants(f) {
		return fmt.Sprintf("the Service asks for no %s address any more", f)
	}
	fresh = slices.DeleteFunc(slices.Clone(fresh), func(b netip.Addr) bool { return addr.FamilyOf(b) != f })
	if len(fresh) == 0 {
		return "the Service asks for another address"
	}
	return "replaced by " + addr.Join(fresh, ", ")
}

// reportReleased reports that svc has lost a. svc is the Service before the write.
func (s *services) reportReleased(svc *corev1.Service, a netip.Addr, why string) {
	from := ""
	if given, _ := service.RecordOf(svc); given.From != "" {
		from = " from pool " + given.From
	}
	s.event(svc, corev1.EventTypeNormal, eventReleased, fmt.Sprintf("Released IP %s%s: %s", a, from, why))
}

// reportRefusal reports and counts a refusal or a conflict that the condition did not say before.
func (s *services) reportRefusal(svc *corev1.Service, r service.Request, d decision) {
	if service.Says(svc, d.Result.Reason, d.Result.Message) {
		return
	}
	if d.Result.Reason == ipam.ReasonConflict {
		s.event(svc, corev1.EventTypeWarning, ipam.ReasonConflict, d.Result.Message)
		s.log.Warn("addressConflict", "service", r.Key(), "reason", d.Result.Message)
	}
	if d.Refusal == nil {
		return
	}
	s.reportFailed(svc, r, d)
	if !d.Refusal.Claiming {
		s.metrics.reject(d.Refusal)
		s.log.Info("allocationFailed", "service", r.Key(), "group", d.Refusal.Pool, "reason", d.Refusal.Message)
	}
}

// reportFailed reports a refusal.
func (s *services) reportFailed(svc *corev1.Service, r service.Request, d decision) {
	s.event(svc, corev1.EventTypeWarning, "AllocationFailed", fmt.Sprintf("Failed to allocate IP for %q: %s", r.Key(), d.Refusal.Message))
}

// removed returns the event about the addresses of another controller that the next write removes
// from the status of svc, or "" if it was told before. It asks for the name of that controller,
// which the write makes the API server forget.
func (s *services) removed(ctx context.Context, svc *corev1.Service, m *memory, r service.Request) string {
	addresses := addr.Join(r.Strange, ", ")
	if addresses == "" || addresses == m.removed {
		return ""
	}
	who := managing("another controller", s.findRival(ctx, client.ObjectKeyFromObject(svc), statusPart))
	return fmt.Sprintf("PureLB serves this Service, so it removed %s from the status, which %s wrote; "+
		"set the annotation %s: \"true\" to leave the Service to that controller", addresses, who, service.AnnotationLeave)
}

// reportPolicy reports that the external traffic policy of svc was reset.
func (s *services) reportPolicy(svc *corev1.Service, r service.Request, d decision) {
	why := fmt.Sprintf("local addresses (%s), setting it to Cluster: one node has the address and takes all its traffic", addr.Join(d.Result.Addresses, ", "))
	if r.SharingKey != "" {
		why = fmt.Sprintf("addresses that may be shared (%s), setting it to Cluster: the node that has the address takes the traffic of all Services that share it",
			addr.Join(d.Result.Addresses, ", "))
	}
	s.event(svc, corev1.EventTypeNormal, "LocalOverride", "externalTrafficPolicy Local is not supported for "+why)
	s.log.Info("localOverride", "service", r.Key())
}

// reportTypeChange reports that svc, which had these addresses, is now of another type.
func (s *services) reportTypeChange(svc *corev1.Service, had []netip.Addr) {
	for _, a := range had {
		s.reportReleased(svc, a, fmt.Sprintf("the Service is of type %s, not LoadBalancer", svc.Spec.Type))
	}
	s.log.Info("addressReleased", "service", svc.Namespace+"/"+svc.Name, "address", addr.Join(had, ", "), "reason", "type is "+string(svc.Spec.Type))
}

func (s *services) event(svc *corev1.Service, eventType, reason, message string) {
	s.events.Eventf(&corev1.ObjectReference{
		APIVersion: "v1", Kind: "Service",
		Namespace: svc.Namespace, Name: svc.Name, UID: svc.UID, ResourceVersion: svc.ResourceVersion,
	}, eventType, reason, "%s", message)
}
