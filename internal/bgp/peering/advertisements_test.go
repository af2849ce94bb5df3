package peering_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/testing/expect"
)

// One service sets attributes that the advertisements of its group set too.
func TestAServicePrecedesTheAdvertisementsOfItsGroup(t *testing.T) {
	seven, once := uint32(7), uint8(1)
	group := peering.Restriction{Group: "web", Mark: peering.ProfileOf("web"), Advertisements: []peering.Advertisement{
		{Attributes: peering.Attributes{Communities: []uint32{64512<<16 | 1}, LargeCommunities: []string{"1:1:1"}}}, {Attributes: peering.Attributes{MED: &seven}}, {Prepend: &once},
	}}
	sets := func(r peering.Restriction) (text string) {
		for _, a := range r.Advertisements {
			text += override(peering.Override{Communities: a.Communities, LargeCommunities: a.LargeCommunities, MED: a.MED, LocalPref: a.LocalPref})
			text += when(a.Prepend != nil, " prepend")
		}
		return text
	}
	const all = " communities [64512:1] large [1:1:1] med=7 prepend"
	for _, tt := range []struct {
		name, want string
		service    peering.Attributes
	}{
		{"nothing", all, peering.Attributes{}},
		{"communities", " large [1:1:1] med=7 prepend", peering.Attributes{Communities: []uint32{1}}},
		{"no communities", " large [1:1:1] med=7 prepend", peering.Attributes{Communities: []uint32{}}},
		{"all", " prepend", peering.Attributes{Communities: []uint32{1}, LargeCommunities: []string{"1:1:1"}, MED: &seven, LocalPref: &seven}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := group.Without(tt.service)
			expect.Equal(t, "what advertisements set", sets(r), tt.want)
			expect.Equal(t, "the mark is that of the group", r.Mark == group.Mark, tt.name == "nothing")
		})
	}
	expect.Equal(t, "what the group sets afterwards", sets(group), all)
}

func TestAnAddressIsAnnouncedByTheRoutesOfItsAdvertisements(t *testing.T) {
	seven := uint32(7)
	of := map[string]peering.Attributes{
		"203.0.113.1": {MED: &seven, Marks: []string{"a", "b", "p"}, Advertised: []peering.Advertised{{Marks: []string{"a"}}, {Bits: 24, Marks: []string{"b"}, Profile: "p"}}},
		"203.0.113.2": {Marks: []string{"c", "q"}, Advertised: []peering.Advertised{{Bits: 24, Marks: []string{"c"}, Profile: "q"}}},
		"203.0.114.1": {Marks: []string{"m"}},
		"2001:db8::1": {Marks: []string{"d"}, Advertised: []peering.Advertised{{Bits: 48, Marks: []string{"d"}}}},
	}
	for _, tt := range []struct {
		name, want string
		addresses  []string
	}{
		{"two masks", "203.0.113.0/24 med 7 [b p]\n203.0.113.1/32 med 7 [a]\n", []string{"203.0.113.1/32"}},
		{"one other mask", "203.0.113.0/24 [c q]\n", []string{"203.0.113.2/32"}},
		{"a longer mask than on the interface", "2001:db8::/48 [d]\n", []string{"2001:db8::1/32"}},
		{"the attributes of the lowest address, the marks of both", "203.0.113.0/24 med 7 [b c p]\n203.0.113.1/32 med 7 [a]\n", []string{"203.0.113.2/32", "203.0.113.1/32"}},
		{"without a list", "203.0.114.1/32 [m]\n", []string{"203.0.114.1/32"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var imported []peering.Imported
			for _, a := range tt.addresses {
				imported = append(imported, peering.Imported{Address: netip.MustParsePrefix(a), Interface: "kube-lb0"})
			}
			got := ""
			for _, r := range peering.Routes(imported, func(ip netip.Addr) peering.Attributes { return of[ip.String()] }, false) {
				got += strings.TrimSpace(r.Prefix.String()+" "+attributes(r.Attributes)) + fmt.Sprintf(" %v\n", r.Attributes.Marks)
			}
			expect.Equal(t, "routes", got, tt.want)
		})
	}
}
