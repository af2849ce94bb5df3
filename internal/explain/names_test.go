package explain

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/service"
)

// Package service warns of annotations that no package reads. It has a list of those that other
// packages read.
func TestAllAnnotationsOfServicesAreKnown(t *testing.T) {
	svc := &corev1.Service{}
	svc.Annotations = map[string]string{}
	for _, name := range []string{
		announce.AnnotationNodeAffinity,
		peering.AnnotationCommunities, peering.AnnotationLargeCommunities, peering.AnnotationMED, peering.AnnotationLocalPreference,
	} {
		svc.Annotations[name] = "any"
	}
	if unread := (service.Rules{}).Read(svc).Unread; len(unread) > 0 {
		t.Errorf("package service warns: %q", unread)
	}
}
