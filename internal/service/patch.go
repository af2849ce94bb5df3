package service

import (
	"encoding/json"
	"maps"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"purelb.io/purelb/internal/addr"
)

// Patch returns the merge patch of services/status that writes r into svc, or nil
// if svc already shows r. The patch is for this version of svc only: for any other
// version the API server refuses it.
func (r Result) Patch(svc *corev1.Service, now time.Time) ([]byte, error) {
	p := patch{Status: &status{}}
	if conditions, changed := r.conditions(svc, now); changed {
		p.Status.Conditions = &conditions
	}
	p.Metadata.Annotations = changes(svc.Annotations, r.annotations())
	if wanted := ingress(svc, r.Addresses); !saysIngress(svc, wanted) {
		p.Status.LoadBalancer = &loadBalancer{Ingress: wanted}
	}
	return p.bytes(svc)
}

// ReleasePatch returns the merge patch of services/status that removes our annotations and our
// condition from svc, which is no longer ours. It returns nil if there are none. It leaves the
// addresses in the status to the present owner.
func ReleasePatch(svc *corev1.Service) ([]byte, error) { return release(svc, nil) }

// RefuseAdoptionPatch is ReleasePatch for a Service that PureLB was asked to adopt and cannot. The
// condition says why.
func RefuseAdoptionPatch(svc *corev1.Service, reason, message string, now time.Time) ([]byte, error) {
	says := Result{Reason: reason, Message: message}.condition(svc, now)
	return release(svc, &says)
}

// release removes our annotations and our record from svc, and leaves only says of our conditions.
func release(svc *corev1.Service, says *metav1.Condition) ([]byte, error) {
	p := patch{Status: &status{}}
	p.Metadata.Annotations = changes(svc.Annotations, without)
	conditions := slices.Clone(svc.Status.Conditions)
	changed := meta.RemoveStatusCondition(&conditions, ConditionRecord)
	if says != nil {
		changed = meta.SetStatusCondition(&conditions, *says) || changed
	} else {
		changed = meta.RemoveStatusCondition(&conditions, ConditionAllocated) || changed
	}
	if changed {
		p.Status.Conditions = &conditions
	}
	return p.bytes(svc)
}

// InStatus reports whether the status of svc shows r, whatever the annotations say.
func (r Result) InStatus(svc *corev1.Service) bool {
	_, changed := r.conditions(svc, time.Time{})
	return !changed && saysIngress(svc, ingress(svc, r.Addresses))
}

// conditions returns the conditions of svc with those of r, and whether they differ.
func (r Result) conditions(svc *corev1.Service, now time.Time) (conditions []metav1.Condition, changed bool) {
	conditions = slices.Clone(svc.Status.Conditions)
	said := meta.SetStatusCondition(&conditions, r.condition(svc, now))
	recorded := r.record().set(&conditions, metav1.NewTime(now))
	return conditions, said || recorded
}

// ClusterPolicyPatch returns the merge patch of services that sets the external
// traffic policy of svc to Cluster.
func ClusterPolicyPatch(svc *corev1.Service) ([]byte, error) {
	return patch{Spec: &spec{corev1.ServiceExternalTrafficPolicyCluster}}.bytes(svc)
}

// without has the annotations of a Service without addresses. It has none of PureLB's annotations.
var without = map[string]string{
	AnnotationAllocatedBy:        "",
	AnnotationAllocatedAddresses: "",
	AnnotationAllocatedFrom:      "",
	AnnotationPoolType:           "",
	AnnotationSkipIPv6DAD:        "",
	AnnotationIPAMRecord:         "",
	AnnotationAnnouncingIPv4:     "",
	AnnotationAnnouncingIPv6:     "",
	AnnotationAnnouncingUnknown:  "",
}

// annotations returns those of our annotations that r decides about. "" means that
// the annotation must be absent.
func (r Result) annotations() map[string]string {
	wanted := maps.Clone(without)
	if r.Reevaluated && !r.KeepReevaluate {
		wanted[AnnotationReevaluate] = ""
	}
	if len(r.Addresses) == 0 {
		return wanted
	}
	wanted[AnnotationAllocatedBy] = Brand
	wanted[AnnotationAllocatedAddresses] = addr.Join(r.Addresses, ",")
	wanted[AnnotationAllocatedFrom] = r.From
	wanted[AnnotationPoolType] = r.PoolType
	if r.SkipIPv6DAD {
		wanted[AnnotationSkipIPv6DAD] = "true"
	}
	wanted[AnnotationIPAMRecord] = objectsText(r.Objects)
	delete(wanted, AnnotationAnnouncingUnknown)
	for _, f := range []addr.Family{addr.V4, addr.V6} {
		if slices.ContainsFunc(r.Addresses, func(a netip.Addr) bool { return addr.FamilyOf(a) == f }) {
			delete(wanted, AnnotationAnnouncing(f)) // the agents write it
		}
	}
	return wanted
}

// changes returns the merge patch that turns present into wanted. nil deletes an
// annotation.
func changes(present, wanted map[string]string) map[string]*string {
	change := map[string]*string{}
	for name, value := range wanted {
		switch was, there := present[name]; {
		case value == "" && there:
			change[name] = nil
		case value != "" && was != value:
			change[name] = &value
		}
	}
	return change
}

// patch is a JSON merge patch (RFC 7386) of a Service.
type patch struct {
	Metadata metadata `json:"metadata"`
	Spec     *spec    `json:"spec,omitempty"`
	Status   *status  `json:"status,omitempty"`
}

type metadata struct {
	UID             string             `json:"uid,omitempty"`
	ResourceVersion string             `json:"resourceVersion"`
	Annotations     map[string]*string `json:"annotations,omitempty"`
	// Finalizers are all finalizers of the Service.
	Finalizers *[]string `json:"finalizers,omitempty"`
}

type spec struct {
	ExternalTrafficPolicy corev1.ServiceExternalTrafficPolicy `json:"externalTrafficPolicy"`
}

type status struct {
	LoadBalancer *loadBalancer       `json:"loadBalancer,omitempty"`
	Conditions   *[]metav1.Condition `json:"conditions,omitempty"`
}

// loadBalancer without ingress is null, which deletes the present value.
type loadBalancer struct {
	Ingress []corev1.LoadBalancerIngress `json:"ingress"`
}

// bytes returns p for this version of svc, or nil if p changes nothing.
func (p patch) bytes(svc *corev1.Service) ([]byte, error) {
	if p.Status != nil && *p.Status == (status{}) {
		p.Status = nil
	}
	if p.Spec == nil && p.Status == nil && len(p.Metadata.Annotations) == 0 && p.Metadata.Finalizers == nil {
		return nil, nil
	}
	p.Metadata.UID, p.Metadata.ResourceVersion = string(svc.UID), svc.ResourceVersion
	return json.Marshal(p)
}
