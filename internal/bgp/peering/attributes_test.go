package peering_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"purelb.io/purelb/internal/bgp/peering"
)

// attributes prints a.
func attributes(a peering.Attributes) string {
	text := ""
	for _, c := range a.Communities {
		text += fmt.Sprintf(" %d:%d", c>>16, c&0xffff)
	}
	text += when(a.Communities != nil && len(a.Communities) == 0, " none")
	text += when(len(a.LargeCommunities) > 0, fmt.Sprintf(" %v", a.LargeCommunities))
	if a.MED != nil {
		text += fmt.Sprintf(" med %d", *a.MED)
	}
	if a.LocalPref != nil {
		text += fmt.Sprintf(" pref %d", *a.LocalPref)
	}
	return strings.TrimSpace(text)
}

func TestAnnotationsBecomeAttributes(t *testing.T) {
	tests := []struct {
		name, communities, large, med, pref string
		want                                string
	}{
		{name: "no annotations", want: ""},
		{name: "all annotations", communities: "64512:200, 64512:100,no-export,64512:100", large: "64512:1:2,64512:01:1", med: "50", pref: "4294967295",
			want: "64512:100 64512:200 65535:65281 [64512:1:1 64512:1:2] med 50 pref 4294967295"},
		{name: "well-known names", communities: "graceful-shutdown,NO_ADVERTISE,blackhole,no-export-subconfed,no-peer,internet",
			want: "0:0 65535:0 65535:666 65535:65282 65535:65283 65535:65284"},
		{name: "an empty list removes the communities of the group", communities: " , ", want: "none"},
		{name: "wrong values are left out", communities: "64512:100,64512:65536", large: "1:2", med: "-1", pref: "4294967296",
			want: `64512:100
				ParseError metadata.annotations[purelb.io/bgp-communities][1]: "64512:65536" is not a community: write two numbers from 0 to 65535, such as 64512:100, or a well-known name such as no-export
				ParseError metadata.annotations[purelb.io/bgp-large-communities][0]: "1:2" is not a large community: write three numbers from 0 to 4294967295, such as 64512:100:1
				ParseError metadata.annotations[purelb.io/bgp-med]: "-1" is not a number from 0 to 4294967295
				ParseError metadata.annotations[purelb.io/bgp-local-preference]: "4294967296" is not a number from 0 to 4294967295`},
		{name: "signs and spaces inside of a number are wrong", communities: "+1:2,1: 2", want: `
				ParseError metadata.annotations[purelb.io/bgp-communities][0]: "+1:2" is not a community: write two numbers from 0 to 65535, such as 64512:100, or a well-known name such as no-export
				ParseError metadata.annotations[purelb.io/bgp-communities][1]: "1: 2" is not a community: write two numbers from 0 to 65535, such as 64512:100, or a well-known name such as no-export`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			written := map[string]string{"other": "1"}
			for name, value := range map[string]string{
				peering.AnnotationCommunities: tt.communities, peering.AnnotationLargeCommunities: tt.large,
				peering.AnnotationMED: tt.med, peering.AnnotationLocalPreference: tt.pref,
			} {
				if value != "" {
					written[name] = value
				}
			}
			a, problems := peering.AttributesOf(written)
			got := attributes(a) + "\n" + print(peering.Decision{Problems: problems})
			if diff := cmp.Diff(trimmed(tt.want), trimmed(got)); diff != "" {
				t.Errorf("the result differs (-want +got):\n%s", diff)
			}
		})
	}
}

// A route with more communities than fit into an UPDATE message would make GoBGP panic.
func TestLongListsOfCommunitiesAreShortened(t *testing.T) {
	const most = 64
	var communities, large []string
	for i := range 2000 {
		communities, large = append(communities, fmt.Sprintf("64512:%d", i)), append(large, fmt.Sprintf("64512:0:%d", i))
	}
	a, problems := peering.AttributesOf(map[string]string{
		peering.AnnotationCommunities: strings.Join(communities, ","), peering.AnnotationLargeCommunities: strings.Join(large, ","),
	})
	if len(a.Communities) != most || len(a.LargeCommunities) != most {
		t.Errorf("the route has %d communities and %d large ones, want %d of each", len(a.Communities), len(a.LargeCommunities), most)
	}
	want := "ParseError metadata.annotations[purelb.io/bgp-communities]: there are 2000 elements, so those after the first 64 are left out: remove some\n" +
		"ParseError metadata.annotations[purelb.io/bgp-large-communities]: there are 2000 elements, so those after the first 64 are left out: remove some\n"
	if diff := cmp.Diff(want, print(peering.Decision{Problems: problems})); diff != "" {
		t.Errorf("the problems differ (-want +got):\n%s", diff)
	}
	if _, problems := peering.AttributesOf(map[string]string{peering.AnnotationCommunities: strings.Join(communities[:most], ",")}); len(problems) > 0 {
		t.Errorf("with %d communities, the problems are %v, want none", most, problems)
	}
}

func TestServicesOverrideTheAttributesOfTheirGroup(t *testing.T) {
	med, pref, low := int64(10), int64(200), int64(-1)
	group, problems := peering.ParseAttributes([]string{"64512:1"}, []string{"1:2:3", "x"}, &med, &low)
	want := "ParseError largeCommunities[1]: \"x\" is not a large community: write three numbers from 0 to 4294967295, such as 64512:100:1\n" +
		"ParseError localPreference: \"-1\" is not a number from 0 to 4294967295\n"
	if diff := cmp.Diff(want, print(peering.Decision{Problems: problems})); diff != "" {
		t.Errorf("the result differs (-want +got):\n%s", diff)
	}
	own, _ := peering.ParseAttributes([]string{"no-export"}, nil, nil, &pref)
	none, _ := peering.AttributesOf(map[string]string{peering.AnnotationCommunities: ""})
	for want, service := range map[string]peering.Attributes{
		"64512:1 [1:2:3] med 10":              {},
		"65535:65281 [1:2:3] med 10 pref 200": own,
		"none [1:2:3] med 10":                 none,
	} {
		if got := attributes(peering.Merge(group, service)); got != want {
			t.Errorf("the merged attributes are %s, want %s", got, want)
		}
	}
}

func TestAddressesBecomeRoutes(t *testing.T) {
	on := func(prefix string) peering.Imported {
		return peering.Imported{Address: netip.MustParsePrefix(prefix), Interface: "kube-lb0"}
	}
	shared := []uint32{0, 99} // the capacity is shared with another slice
	said := func(a netip.Addr) peering.Attributes {
		if a != netip.MustParseAddr("198.51.100.7") && a != netip.MustParseAddr("198.51.100.9") {
			return peering.Attributes{Communities: []uint32{}}
		}
		if a == netip.MustParseAddr("198.51.100.9") {
			return peering.Attributes{Communities: []uint32{9}} // 198.51.100.7 is lower and has communities too
		}
		shared[0] = uint32(a.As4()[3])
		return peering.Attributes{Communities: shared[:1]}
	}
	imported := []peering.Imported{
		on("2001:db8::1/128"), on("198.51.100.9/24"), on("198.51.100.5/24"), on("198.51.100.7/24"),
		on("198.51.100.7/32"), on("198.51.100.5/24"),
	}
	printed := func(routes []peering.Route) string {
		text := ""
		for _, r := range routes {
			text += strings.TrimSpace(fmt.Sprintf("%s %s", r.Prefix, attributes(r.Attributes))) + "\n"
		}
		return text
	}
	want := "198.51.100.0/24 0:7\n198.51.100.7/32 0:7\n2001:db8::1/128\n"
	if diff := cmp.Diff(want, printed(peering.Routes(imported, said, false))); diff != "" {
		t.Errorf("the result differs (-want +got):\n%s", diff)
	}
	want = "198.51.100.0/24 0:7 65535:0 pref 0\n198.51.100.7/32 0:7 65535:0 pref 0\n2001:db8::1/128 65535:0 pref 0\n"
	if diff := cmp.Diff(want, printed(peering.Routes(imported, said, true))); diff != "" {
		t.Errorf("the result differs (-want +got):\n%s", diff)
	}
	want = "198.51.100.0/24 0:7\n198.51.100.7/32 0:7\n2001:db8::1/128\n"
	if diff := cmp.Diff(want, printed(peering.Routes(imported, said, false))); diff != "" {
		t.Errorf("after draining, the routes differ: %s", diff)
	}
	if shared[1] != 99 {
		t.Error("draining has overwritten a shared slice")
	}
	if routes := peering.Routes(nil, nil, true); len(routes) != 0 {
		t.Errorf("without addresses, the routes are %v, want none", routes)
	}
}
