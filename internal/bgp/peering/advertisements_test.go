package peering_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/testing/expect"
)

// three has an external neighbor, one in the nodes' AS, and one that expects another AS of the nodes.
const three = `{global: {asn: 64512}, peerGroups: [{config: {peerGroupName: tor, peerAsn: 64513, localAsn: 64600}}],
	neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}}, {config: {neighborAddress: 192.0.2.2, peerAsn: 64512}}, {config: {neighborAddress: 192.0.2.3, peerGroup: tor}}]}`

// one returns an advertisement to some neighbors.
func one(peers string, set func(*peering.Advertisement)) peering.Advertisement {
	a := peering.Advertisement{Peers: strings.Fields(peers)}
	set(&a)
	return a
}

func tagged(n uint32) func(*peering.Advertisement) {
	return func(a *peering.Advertisement) { a.Communities = []uint32{64512<<16 | n} }
}

func largely(text ...string) func(*peering.Advertisement) {
	return func(a *peering.Advertisement) { a.LargeCommunities = text }
}

func med(n uint32) func(*peering.Advertisement) {
	return func(a *peering.Advertisement) { a.MED = &n }
}

func preference(n uint32) func(*peering.Advertisement) {
	return func(a *peering.Advertisement) { a.LocalPref = &n }
}

func prepend(n uint8) func(*peering.Advertisement) {
	return func(a *peering.Advertisement) { a.Prepend = &n }
}

// given prints what the neighbors of three get of a group.
func given(t *testing.T, n peering.Node, all ...peering.Advertisement) string {
	t.Helper()
	n.Name = "n"
	n.Restricted = []peering.Restriction{{Group: "web", Mark: peering.ProfileOf("web"), Advertisements: all}}
	d := peering.Decide(config(t, three), n, nil, nothing)
	var b strings.Builder
	for _, p := range d.State.Peers {
		if o, there := p.Overrides[peering.ProfileOf("web")]; there {
			fmt.Fprintf(&b, "%s:%s\n", p.Name(), override(o))
		}
	}
	for _, p := range d.Problems {
		if strings.HasPrefix(p.Field, "ServiceGroup") {
			fmt.Fprintln(&b, p)
		}
	}
	return b.String()
}

func TestANeighborGetsWhatTheAdvertisementsSayThatNameIt(t *testing.T) {
	many := make([]string, 64)
	for i := range many {
		many[i] = fmt.Sprintf("64512:1:%d", 100+i)
	}
	for _, tt := range []struct {
		name string
		node peering.Node
		all  []peering.Advertisement
		want string
	}{
		{name: "for all neighbors", all: []peering.Advertisement{one("", tagged(1))}, want: "192.0.2.1: communities [64512:1]\n192.0.2.2: communities [64512:1]\n192.0.2.3: communities [64512:1]\n"},
		{name: "for an address", all: []peering.Advertisement{one("192.0.2.1", tagged(1))}, want: "192.0.2.1: communities [64512:1]\n"},
		{name: "for a peer group", all: []peering.Advertisement{one("tor", med(5))}, want: "192.0.2.3: med=5\n"},
		{
			name: "communities of all that name the neighbor",
			all:  []peering.Advertisement{one("192.0.2.1", tagged(2)), one("192.0.2.1 192.0.2.2", tagged(1)), one("192.0.2.1", largely("64512:1:1"))},
			want: "192.0.2.1: communities [64512:1 64512:2] large [64512:1:1]\n192.0.2.2: communities [64512:1]\n",
		},
		{
			name: "a number of the first that sets it",
			all:  []peering.Advertisement{one("192.0.2.1", tagged(1)), one("192.0.2.1 tor", med(7)), one("", med(9))},
			want: "192.0.2.1: communities [64512:1] med=7\n192.0.2.2: med=9\n192.0.2.3: med=7\n",
		},
		{name: "0 is a number too", all: []peering.Advertisement{one("tor", med(0)), one("tor", med(9)), one("192.0.2.1", prepend(0)), one("192.0.2.1", prepend(3))}, want: "192.0.2.3: med=0\n"},
		{name: "a longer path", all: []peering.Advertisement{one("", prepend(2))}, want: "192.0.2.1: prepend x2\n192.0.2.3: prepend x2\n"},
		{name: "a local preference only within the AS", all: []peering.Advertisement{one("", preference(200))}, want: "192.0.2.2: pref=200\n"},
		{
			name: "a draining node keeps its request", node: peering.Node{Draining: true}, all: []peering.Advertisement{one("192.0.2.1 192.0.2.2", tagged(1)), one("", preference(200))},
			want: "192.0.2.1: communities [64512:1 65535:0]\n192.0.2.2: communities [64512:1 65535:0]\n",
		},
		{name: "another node's neighbor", all: []peering.Advertisement{one("192.0.2.9", med(1))}, want: ""},
		{
			name: "more than a route can have", all: []peering.Advertisement{one("tor", largely(many...)), one("tor", largely("64512:1:900"))},
			want: "192.0.2.3: large [" + strings.Join(many, " ") + "]\nServiceGroup web: the advertisements to 192.0.2.3 have 65 communities together, so those after the first 64 are left out: remove some\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) { expect.Equal(t, "what neighbors get", given(t, tt.node, tt.all...), tt.want) })
	}
}

func TestAServicePrecedesTheAdvertisementsOfItsGroup(t *testing.T) {
	group := peering.Restriction{Group: "web", Mark: peering.ProfileOf("web"), Advertisements: []peering.Advertisement{
		one("192.0.2.1", tagged(1)), one("192.0.2.1", med(7)), one("192.0.2.1", prepend(1)),
	}}
	seven := uint32(7)
	for _, tt := range []struct {
		name, want string
		service    peering.Attributes
	}{
		{"nothing", "192.0.2.1: communities [64512:1] med=7 prepend x1\n", peering.Attributes{}},
		{"communities", "192.0.2.1: med=7 prepend x1\n", peering.Attributes{Communities: []uint32{1}}},
		{"no communities", "192.0.2.1: med=7 prepend x1\n", peering.Attributes{Communities: []uint32{}}},
		{"all", "192.0.2.1: prepend x1\n", peering.Attributes{Communities: []uint32{1}, LargeCommunities: []string{"1:1:1"}, MED: &seven, LocalPref: &seven}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := group.Without(tt.service)
			expect.Equal(t, "what neighbors get", given(t, peering.Node{}, r.Advertisements...), tt.want)
			expect.Equal(t, "the mark is that of the group", r.Mark == group.Mark, tt.name == "nothing")
		})
	}
	expect.Equal(t, "what the group sets afterwards", given(t, peering.Node{}, group.Advertisements...), "192.0.2.1: communities [64512:1] med=7 prepend x1\n")
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
