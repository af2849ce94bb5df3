package speaker

import (
	"net/netip"
	"testing"

	"purelb.io/purelb/internal/bgp/intent"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/testing/expect"
)

const ignored = "Warning RouteAttributesIgnored Node node-a leaves out what cannot be read: "

func TestWrongAnnotationsOfAServiceAreReportedOnce(t *testing.T) {
	inWorld(t, oneNeighbor, nil, func(w *world) {
		w.reported()
		service := func(annotations map[string]string) {
			w.sees(func(s *intent.Snapshot) {
				s.Services = []intent.ServiceFacts{{
					Name: "default/web", UID: "web", Annotations: annotations, Addresses: []netip.Addr{netip.MustParseAddr("203.0.113.8")},
				}}
			})
		}
		service(map[string]string{peering.AnnotationMED: "low", peering.AnnotationCommunities: "65000:7,blue", peering.AnnotationLargeCommunities: "1:2:3"})
		const community = ignored + `metadata.annotations[purelb.io/bgp-communities][1]: "blue" is not a community: write two numbers from 0 to 65535, such as 64512:100, or a well-known name such as no-export`
		expect.Equal(t, "events of wrong annotations", w.reported(), community+"\n"+ignored+`metadata.annotations[purelb.io/bgp-med]: "low" is not a number from 0 to 4294967295`)
		service(map[string]string{peering.AnnotationMED: "lower", peering.AnnotationCommunities: "65000:7,blue"})
		expect.Equal(t, "events of a changed annotation", w.reported(), ignored+`metadata.annotations[purelb.io/bgp-med]: "lower" is not a number from 0 to 4294967295`)
		w.edit(oneNeighbor)
		expect.Equal(t, "events without a change", w.reported(), "")
		service(map[string]string{peering.AnnotationMED: "7"})
		expect.Equal(t, "events when the annotations are right", w.reported(), "")
		service(map[string]string{peering.AnnotationMED: "lower"})
		expect.Equal(t, "events when an annotation is wrong again", w.reported(), ignored+`metadata.annotations[purelb.io/bgp-med]: "lower" is not a number from 0 to 4294967295`)
	})
}

func TestANodeWithoutAConfigurationReportsNoRouteAttributes(t *testing.T) {
	inWorld(t, oneNeighbor, func(w *world) {
		w.cluster.snapshot.Services = []intent.ServiceFacts{{
			Name: "default/web", UID: "web", Annotations: map[string]string{peering.AnnotationCommunities: "blue"}, Addresses: []netip.Addr{netip.MustParseAddr("203.0.113.8")},
		}}
	}, func(w *world) {
		w.reported()
		w.sees(func(s *intent.Snapshot) { s.Configs = nil })
		expect.Equal(t, "events", w.reported(), "")
	})
}
