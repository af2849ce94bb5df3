package explain

import (
	"testing"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/service"
)

// Package service warns of annotations that no package reads. It has a list of those that other
// packages read.
func TestAllAnnotationsOfServicesAreKnown(t *testing.T) {
	for _, name := range []string{
		announce.AnnotationNodeAffinity,
		peering.AnnotationCommunities, peering.AnnotationLargeCommunities, peering.AnnotationMED, peering.AnnotationLocalPreference,
	} {
		if !service.Knows(name) {
			t.Errorf("package service does not know %s", name)
		}
	}
}
