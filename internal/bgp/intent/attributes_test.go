package intent

import (
	"net/netip"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/groups"
)

func TestComplaintsNameTheObjectWithTheMistake(t *testing.T) {
	med := int64(-1)
	in := Read(Snapshot{
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
		Configs: []bgpv1.BGPConfiguration{{}},
	}, "purelb", Input{})
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
		if in := Read(s, "purelb", Input{}, tt.others...); len(in.Attributes.Ranges) != tt.want {
			t.Errorf("%q: %d ranges have attributes, want %d", tt.others, len(in.Attributes.Ranges), tt.want)
		}
	}
}

func TestAWrongNodeSelectorIsReported(t *testing.T) {
	wrong := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "rack", Operator: "Is", Values: []string{"a"}}}}
	right := &metav1.LabelSelector{MatchLabels: map[string]string{"rack": "a"}}
	pooled := groups.Group{Pools: []groups.Pool{{}}}
	for _, c := range []struct {
		name      string
		group     groups.Group
		selector  *metav1.LabelSelector
		elsewhere bool
		problem   string
	}{
		{"no selector", pooled, nil, false, ""},
		{"a selector of other nodes", pooled, right, true, ""},
		{"a malformed selector", pooled, wrong, true, "no node announces the addresses of the group"},
		{"a group without pools", groups.Group{Backend: "NetBox"}, right, false, "is not in effect, because the group has no pool"},
	} {
		t.Run(c.name, func(t *testing.T) {
			elsewhere, problems := announcedElsewhere(c.group, c.selector, map[string]string{"rack": "b"})
			text := ""
			for _, p := range problems {
				text += p.String()
			}
			if elsewhere != c.elsewhere || (text == "") != (c.problem == "") || !strings.Contains(text, c.problem) {
				t.Errorf("the address belongs to other nodes: %v, the problem is %q; want %v, %q", elsewhere, text, c.elsewhere, c.problem)
			}
		})
	}
}
