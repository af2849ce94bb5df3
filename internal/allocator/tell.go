package allocator

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/selection"
	"purelb.io/purelb/internal/service"
)

// tell reports what is new on a Service that was svc before.
func (s *services) tell(svc *corev1.Service, r service.Request, d decision) {
	s.tellFresh(svc, r, d)
	s.tellEnded(svc, r, d)
	for _, n := range d.Notes {
		kind := corev1.EventTypeNormal
		if n.Warning {
			kind = corev1.EventTypeWarning
		}
		s.event(svc, kind, n.Reason, n.Message)
	}
	for _, c := range d.Counts {
		s.metrics.allocated(c)
	}
	if d.Result.Reevaluated {
		s.log.Info("reevaluated", "service", r.Key(), "address", texts(d.Result.Addresses))
	}
	s.tellRefusal(svc, r, d)
}

// tellFresh reports addresses that are new.
func (s *services) tellFresh(svc *corev1.Service, r service.Request, d decision) {
	fresh := without(d.Result.Addresses, r.Held)
	if len(fresh) == 0 {
		return
	}
	message := fmt.Sprintf("Assigned %s from pool %s", d.Result.Describe(), d.Result.From)
	if slices.ContainsFunc(d.Counts, func(c selection.Count) bool { return c.Kind == selection.CountMultiPool }) {
		message = multiPool(len(fresh), len(d.Result.Addresses), d.Result.From)
	}
	s.event(svc, corev1.EventTypeNormal, "AddressAssigned", message)
	s.log.Info("addressAssigned", "service", r.Key(), "address", texts(fresh), "group", d.Result.From)
}

// multiPool tells of fresh addresses, out of total, of which there is one for
// every range of a group.
func multiPool(fresh, total int, group string) string {
	if fresh == total {
		return fmt.Sprintf("Multi-pool: assigned %d IPs from pool %s", total, group)
	}
	return fmt.Sprintf("Incremental multi-pool: added %d IPs (total %d) from pool %s", fresh, total, group)
}

// tellEnded reports addresses that the Service has no longer: of families that
// it does not want any more, and others that have been replaced.
func (s *services) tellEnded(svc *corev1.Service, r service.Request, d decision) {
	if len(d.ended) == 0 {
		return
	}
	var unwanted, replaced []netip.Addr
	for _, a := range d.ended {
		if r.Wants(addr.FamilyOf(a)) {
			replaced = append(replaced, a)
		} else {
			unwanted = append(unwanted, a)
		}
	}
	if len(unwanted) > 0 {
		s.event(svc, corev1.EventTypeNormal, "AddressReleased", fmt.Sprintf(
			"Released addresses no longer needed after IP family transition: [%s]", texts(unwanted)))
	}
	if len(replaced) > 0 {
		s.event(svc, corev1.EventTypeNormal, "AddressReleased", fmt.Sprintf(
			"Released %s, replaced by %s", texts(replaced), texts(without(d.Result.Addresses, r.Held))))
	}
	s.log.Info("addressReleased", "service", r.Key(), "address", texts(d.ended))
}

// tellRefusal reports what a Service does not get, once.
func (s *services) tellRefusal(svc *corev1.Service, r service.Request, d decision) {
	if service.Says(svc, d.Result.Reason, d.Result.Message) {
		return
	}
	if d.Result.Reason == selection.ReasonConflict {
		s.event(svc, corev1.EventTypeWarning, selection.ReasonConflict, d.Result.Message)
		s.log.Warn("addressConflict", "service", r.Key(), "reason", d.Result.Message)
	}
	if d.Refusal != nil {
		s.event(svc, corev1.EventTypeWarning, "AllocationFailed", fmt.Sprintf("Failed to allocate IP for %q: %s", r.Key(), d.Refusal.Message))
	}
}

// tellPolicy reports that the external traffic policy of svc was reset.
func (s *services) tellPolicy(svc *corev1.Service, r service.Request, d decision) {
	why := fmt.Sprintf("local addresses (%s), setting it to Cluster: one node has the address and takes all its traffic", texts(d.Result.Addresses))
	if r.SharingKey != "" {
		why = fmt.Sprintf("addresses that may be shared (%s), setting it to Cluster: the node that has the address takes the traffic of all Services that share it",
			texts(d.Result.Addresses))
	}
	s.event(svc, corev1.EventTypeNormal, "LocalOverride", "externalTrafficPolicy Local is not supported for "+why)
	s.log.Info("localOverride", "service", r.Key())
}

// tellRelease reports that svc has become one of another type.
func (s *services) tellRelease(svc *corev1.Service) {
	if svc.Annotations[service.AnnotationAllocatedFrom] != "" {
		s.event(svc, corev1.EventTypeNormal, "AddressReleased", fmt.Sprintf("Service is Type %s, not LoadBalancer", svc.Spec.Type))
	}
	s.log.Info("addressReleased", "service", svc.Namespace+"/"+svc.Name, "reason", "type is "+string(svc.Spec.Type))
}

func (s *services) event(svc *corev1.Service, eventType, reason, message string) {
	s.events.Eventf(&corev1.ObjectReference{
		APIVersion: "v1", Kind: "Service",
		Namespace: svc.Namespace, Name: svc.Name, UID: svc.UID, ResourceVersion: svc.ResourceVersion,
	}, eventType, reason, "%s", message)
}
