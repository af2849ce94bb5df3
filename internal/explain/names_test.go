package explain

import (
	"testing"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/peering"
	"purelb.io/purelb/internal/service"
)

// Package service tells users about annotations that nobody reads. It cannot ask the packages that
// read them.
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
