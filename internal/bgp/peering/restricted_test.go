package peering_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/testing/expect"
)

func nothing(netip.Addr) (peering.Egress, bool) { return peering.Egress{}, false }

// naming returns the decision for a node with a group that names these peers.
func naming(peers string, c bgpv1.BGPConfiguration) peering.Decision {
	return peering.Decide(c.Spec, peering.Node{Name: "n", Restricted: []peering.Restriction{{Group: "edge", Mark: peering.MarkOf("edge"), Peers: strings.Fields(peers)}}}, nil, nothing)
}

// A group names a peer by its address, its interface or its peer group.
func TestNeighborsGetTheRoutesOfTheGroupsThatNameThem(t *testing.T) {
	const spec = `{global: {asn: 65000}, peerGroups: [{config: {peerGroupName: tor, peerAsn: 65001}}],
		neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 65001}}, {config: {neighborInterface: eth1, peerAsn: 65001}},
			{config: {neighborAddress: "2001:db8::1", peerGroup: tor}}, {config: {neighborAddress: 192.0.2.4, peerGroup: tor}}]}`
	for _, tt := range []struct{ name, peers, want string }{
		{"an address", "192.0.2.1", "192.0.2.1"},
		{"an address in another form", "2001:DB8:0::1", "2001:db8::1"},
		{"an interface", "eth1", "%eth1"},
		{"an interface with a percent sign", "%eth1", "%eth1"},
		{"a peer group", "tor", "192.0.2.4 2001:db8::1"},
		{"two names", "192.0.2.1 eth1", "%eth1 192.0.2.1"},
		{"a neighbor that this node does not have", "192.0.2.99", ""},
		{"a percent sign alone", "%", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := naming(tt.peers, born(t, 1, "default", spec))
			expect.Equal(t, "neighbors with the group", with("edge", d.State), tt.want)
			expect.Equal(t, "the group names no neighbor", slices.Contains(d.Unnamed, "edge"), tt.want == "")
		})
	}
}

// with prints the neighbors that get the routes of a group.
func with(group string, s peering.State) string {
	var all []string
	for _, p := range s.Peers {
		if slices.Contains(p.Groups, group) {
			all = append(all, p.Name())
		}
	}
	return strings.Join(all, " ")
}

func TestUnknownPeersOfGroupsAreReported(t *testing.T) {
	all := []bgpv1.BGPConfiguration{
		born(t, 1, "default", "{global: {asn: 65000}, neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 65001}}]}"),
		born(t, 1, "b", "{"+rackB+"global: {asn: 65000}, peerGroups: [{config: {peerGroupName: tor}}], neighbors: [{config: {neighborInterface: eth1}}]}"),
	}
	unknown := peering.UnknownPeers(all, []string{"192.0.2.1", "tor", "eth1", "192.0.2.9", "spine", "%"})
	if got := strings.Join(unknown, " "); got != "192.0.2.9 spine %" {
		t.Errorf("the unknown peers are %s", got)
	}
	d := peering.Decide(all[0].Spec, peering.Node{Restricted: []peering.Restriction{{Group: "edge", Mark: "1:2:3", Peers: []string{"spine"}, Unknown: []string{"spine"}}}}, nil, nothing)
	const want = `ServiceGroup edge: spec.bgp.peers: no neighbor has the address, the interface or the peer group "spine": correct it; the addresses are announced only to the others`
	if got := firstSet(d.Problems); !strings.Contains(got, want) {
		t.Errorf("the problems are %s", got)
	}
}

// Each node has its own gateway, so any address may be the address of a gateway.
func TestAddressesOfGatewaysAreKnownPeers(t *testing.T) {
	all := []bgpv1.BGPConfiguration{born(t, 1, "default", "{global: {asn: 65000}, neighbors: [{config: {neighborGateway: ipv4, peerAsn: 65001}}]}")}
	unknown := peering.UnknownPeers(all, []string{"192.0.2.1", "2001:db8::1", "eth1"})
	if got := strings.Join(unknown, " "); got != "2001:db8::1 eth1" {
		t.Errorf("unknown: %s", got)
	}
}

// A shared route has the marks of all its groups. Its other attributes are those of one address.
func TestARouteHasTheMarksOfAllItsAddresses(t *testing.T) {
	imported := []peering.Imported{{Address: netip.MustParsePrefix("203.0.113.1/24")}, {Address: netip.MustParsePrefix("203.0.113.2/24")}, {Address: netip.MustParsePrefix("203.0.113.3/24")}}
	routes := peering.Routes(imported, func(ip netip.Addr) peering.Attributes {
		switch ip.String() {
		case "203.0.113.1":
			return peering.Attributes{Marks: []string{"b"}}
		case "203.0.113.2":
			return peering.Attributes{Marks: []string{"a"}, Communities: []uint32{7}}
		}
		return peering.Attributes{Communities: []uint32{8}}
	}, false)
	if len(routes) != 1 || strings.Join(routes[0].Attributes.Marks, " ") != "a b" || routes[0].Attributes.Communities[0] != 7 {
		t.Errorf("%+v", routes)
	}
}

const alike = "the policies cannot tell apart neighbors with the same address on different interfaces, so none of them gets the addresses of the group: " +
	"give the routers different addresses, or name all of them"

// Policies match link-local addresses without their interface.
func TestNeighborsWithOneLinkLocalAddressGetNoRestrictedRoutes(t *testing.T) {
	const ambiguous = "ServiceGroup edge: spec.bgp.peers: fe80::1: " + alike
	for _, tt := range []struct {
		name, neighbors, peers string
		found                  map[string]string
		want, problems         string
	}{
		{"two addresses", "{neighborAddress: fe80::1%eth1} {neighborAddress: fe80::2%eth2}", "fe80::1%eth1", nil, "fe80::1%eth1", ""},
		{"one address", "{neighborAddress: fe80::1%eth1} {neighborAddress: fe80::1%eth2}", "fe80::1%eth1", nil, "", ambiguous},
		{"one address, and both are named", "{neighborAddress: fe80::1%eth1} {neighborAddress: fe80::1%eth2}", "fe80::1%eth1 fe80::1%eth2", nil, "fe80::1%eth1 fe80::1%eth2", ""},
		{"unnumbered with two addresses", "{neighborInterface: eth1} {neighborInterface: eth2}", "eth1", map[string]string{"eth1": "fe80::1%eth1", "eth2": "fe80::2%eth2"}, "%eth1", ""},
		{"unnumbered with one address", "{neighborInterface: eth1} {neighborInterface: eth2}", "eth1", map[string]string{"eth1": "fe80::1%eth1", "eth2": "fe80::1%eth2"}, "", ambiguous},
		{"unnumbered, and both are named", "{neighborInterface: eth1} {neighborInterface: eth2}", "eth1 eth2", map[string]string{"eth1": "fe80::1%eth1", "eth2": "fe80::1%eth2"}, "%eth1 %eth2", ""},
		{"unnumbered with the address of a numbered one", "{neighborInterface: eth1} {neighborAddress: fe80::1%eth2}", "eth1", map[string]string{"eth1": "fe80::1"}, "", ambiguous},
		{"numbered with the address of an unnumbered one", "{neighborInterface: eth1} {neighborAddress: fe80::1%eth2}", "fe80::1%eth2", map[string]string{"eth1": "fe80::1"}, "", ambiguous},
	} {
		t.Run(tt.name, func(t *testing.T) {
			neighbors := strings.NewReplacer("} {", ", peerAsn: 65001}}, {config: {", "{neighbor", "{config: {neighbor").Replace(tt.neighbors)
			neighbors = strings.TrimSuffix(neighbors, "}") + ", peerAsn: 65001}}"
			d := naming(tt.peers, born(t, 1, "default", "{global: {asn: 65000}, neighbors: ["+neighbors+"]}"))
			found := map[string]netip.Addr{}
			for name, text := range tt.found {
				found[name] = netip.MustParseAddr(text)
			}
			state, problems := d.State.Resolved(found)
			got := with("edge", state)
			if got != tt.want || len(state.Peers) != 2 {
				t.Errorf("%d neighbors, and %q get the routes; want 2, and %q", len(state.Peers), got, tt.want)
			}
			problems = slices.DeleteFunc(append(problems, d.Problems...), func(p peering.Problem) bool { return !strings.HasPrefix(p.Field, "ServiceGroup") })
			if text := firstSet(problems); text != tt.problems {
				t.Errorf("problems %q, want %q", text, tt.problems)
			}
		})
	}
}

// The policies, the server and BFD know a neighbor by its address.
func TestUnnumberedNeighborsWaitForTheirAddresses(t *testing.T) {
	d := naming("eth1", born(t, 1, "default", "{global: {asn: 65000}, neighbors: [{config: {neighborInterface: eth1, peerAsn: 65001}}, {config: {neighborInterface: eth2, peerAsn: 65001}}]}"))
	found := map[string]netip.Addr{"eth1": netip.MustParseAddr("fe80::1")}
	s, problems := d.State.Resolved(found)
	if len(s.Peers) != 1 || s.Peers[0].Interface != "eth1" {
		t.Errorf("the neighbors are %+v", s.Peers)
	}
	if len(problems) != 1 || problems[0].Field != "spec.neighbors[1]" || problems[0].Reason != peering.ReasonPending {
		t.Errorf("the problems are %+v", problems)
	}
	found["eth2"] = netip.MustParseAddr("fe80::2")
	if s, problems := d.State.Resolved(found); len(s.Peers) != 2 || s.Peers[1].Address != found["eth2"] || len(problems) > 0 {
		t.Errorf("the neighbors are %+v, and the problems %v", s.Peers, problems)
	}
}
