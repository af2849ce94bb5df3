package speaker

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/peering"
)

const ignored = "Warning RouteAttributesIgnored Node node-a leaves out what cannot be read: "

func TestWrongAnnotationsOfAServiceAreReportedOnce(t *testing.T) {
	inWorld(t, oneNeighbor, nil, func(w *world) {
		w.reported()
		service := func(annotations map[string]string) {
			w.cluster.change(func(s *Snapshot) {
				s.Services = []ServiceFacts{{
					Name: "default/web", UID: "web", Annotations: annotations, Addresses: []netip.Addr{netip.MustParseAddr("203.0.113.8")},
				}}
			})
			settle()
		}
		service(map[string]string{peering.AnnotationMED: "low", peering.AnnotationCommunities: "65000:7,blue", peering.AnnotationLargeCommunities: "1:2:3"})
		const community = ignored + `metadata.annotations[purelb.io/bgp-communities][1]: "blue" is neither a community nor a name in spec.communityAliases of a BGPConfiguration of this node: correct it, or define it there`
		want(t, "events of wrong annotations", w.reported(), community+"\n"+ignored+`metadata.annotations[purelb.io/bgp-med]: "low" is not a number from 0 to 4294967295`)
		service(map[string]string{peering.AnnotationMED: "lower", peering.AnnotationCommunities: "65000:7,blue"})
		want(t, "events of a changed annotation", w.reported(), ignored+`metadata.annotations[purelb.io/bgp-med]: "lower" is not a number from 0 to 4294967295`)
		w.edit(oneNeighbor)
		want(t, "events without a change", w.reported(), "")
		service(map[string]string{peering.AnnotationMED: "7"})
		want(t, "events when the annotations are right", w.reported(), "")
		service(map[string]string{peering.AnnotationMED: "lower"})
		want(t, "events when an annotation is wrong again", w.reported(), ignored+`metadata.annotations[purelb.io/bgp-med]: "lower" is not a number from 0 to 4294967295`)
	})
}

func TestComplaintsNameTheObjectWithTheMistake(t *testing.T) {
	med := int64(-1)
	in := read(Snapshot{
		Services: []ServiceFacts{{
			Name: "default/web", UID: "a", Annotations: map[string]string{peering.AnnotationLocalPreference: ""},
			Addresses: []netip.Addr{netip.MustParseAddr("203.0.113.8")},
		}},
		Groups: []v2.ServiceGroup{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "purelb", Name: "blue", UID: "b"},
			Spec: v2.ServiceGroupSpec{
				Remote: &v2.RemoteSpec{Pools: v2.Pools{V4Pool: &v2.AddressPool{Pool: "203.0.113.0/24", Subnet: "203.0.113.0/24", Aggregation: "/32"}}},
				BGP:    &v2.RouteAttributes{MED: &med},
			},
		}},
	}, "purelb", Input{}, nil)
	for key, about := range map[string]corev1.ObjectReference{
		"Service default/web metadata.annotations[purelb.io/bgp-local-preference]": {APIVersion: "v1", Kind: "Service", Namespace: "default", Name: "web", UID: "a"},
		"ServiceGroup blue med": {APIVersion: "purelb.io/v2", Kind: "ServiceGroup", Namespace: "purelb", Name: "blue", UID: "b"},
	} {
		if in.About[key] != about || in.Complaints[key] == "" {
			t.Errorf("%s: the complaint is %q about %+v", key, in.Complaints[key], in.About[key])
		}
	}
	if len(in.Complaints) != 2 {
		t.Errorf("the complaints are %v", in.Complaints)
	}
}

func TestGroupsOfOtherNamespacesCountIfAllowed(t *testing.T) {
	med := int64(7)
	s := Snapshot{Groups: []v2.ServiceGroup{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "blue", UID: "b"},
		Spec: v2.ServiceGroupSpec{
			Remote: &v2.RemoteSpec{Pools: v2.Pools{V4Pool: &v2.AddressPool{Pool: "203.0.113.0/24", Subnet: "203.0.113.0/24", Aggregation: "/32"}}},
			BGP:    &v2.RouteAttributes{MED: &med},
		},
	}}}
	for _, tt := range []struct {
		others []string
		want   int
	}{{nil, 0}, {[]string{"another"}, 0}, {[]string{"team"}, 1}, {[]string{"*"}, 1}} {
		if in := read(s, "purelb", Input{}, nil, tt.others...); len(in.Attributes.Ranges) != tt.want {
			t.Errorf("%q: %d ranges have attributes, want %d", tt.others, len(in.Attributes.Ranges), tt.want)
		}
	}
}
