package gobgp

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/yaml"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/bgp/peering"
)

// TestRoutersGetTheNextHopsThatPeeringDecides: routes of a family for which peering knows no next hop
// are not announced.
func TestRoutersGetTheNextHopsThatPeeringDecides(t *testing.T) {
	w := newWorld(t)
	router := w.frr("192.0.2.1")
	spec := bgpv1.BGPConfigurationSpec{
		Global:     bgpv1.Global{ASN: ourAS},
		PeerGroups: []bgpv1.PeerGroup{{Config: bgpv1.PeerGroupConfig{PeerGroupName: "all", PeerConfig: bgpv1.PeerConfig{PeerASN: routerAS}}}},
		Neighbors:  []bgpv1.Neighbor{{Config: bgpv1.NeighborConfig{NeighborAddress: "192.0.2.2", PeerGroup: "all"}}},
	}
	spec.PeerGroups[0].Timers = &bgpv1.Timers{Config: bgpv1.TimersConfig{HoldTime: 30, ConnectRetry: 1}}
	s := announcing(t, "198.51.100.1/32", "2001:db8:f::1/128")
	apply(t, s, decided(t, spec, peering.Node{}))
	one := "198.51.100.1/32 via 192.0.2.1"
	router.Await(one)
	if sent := established(t, s, "192.0.2.2").Sent[v6]; sent != 0 {
		t.Errorf("%d IPv6 routes are sent without a next hop", sent)
	}
	apply(t, s, decided(t, spec, peering.Node{}, "2001:db8::1"))
	both := []string{one, "2001:db8:f::1/128 via 2001:db8::1"}
	router.Await(both...)
	apply(t, s, decided(t, spec, peering.Node{}))
	router.Await(one)
}

// TestGoBGPAcceptsThePoliciesThatPeeringDecides: if it refused one statement, it
// would keep all old policies.
func TestGoBGPAcceptsThePoliciesThatPeeringDecides(t *testing.T) {
	const statement = `{global: {asn: 64515, applyPolicy: {exportPolicy: {policies: [p]}}}, definedSets: [
		{type: prefix, name: s, prefixes: [{ipPrefix: 0.0.0.0/0, maskLengthMax: 32}]}, {type: neighbor, name: s, list: ['::/0', 192.0.2.1]},
		{type: as-path, name: s, list: ['^65000_', '_65000', '65000-65010', '.*']}, {type: community, name: s, list: ['65000', no-export, planned-shut, gold, '65000:.*', '70000:1']},
		{type: large-community, name: s, list: ['1:2:3', gold, '^1:.*']}], policyDefinitions: [{name: p, statements: [%s]}]}`
	var all []string
	for _, kind := range []string{"prefix", "neighbor", "asPath", "community", "largeCommunity"} {
		for _, match := range []string{"any", "all", "invert", "some"} {
			all = append(all, fmt.Sprintf("{conditions: {%sSet: {name: s, match: %s}}}", kind, match))
		}
	}
	for _, kind := range []string{"add", "remove", "replace", "swap", "''"} {
		for _, list := range []string{"", "'65000:1'", "no-export, '0:0'", "'65000:1:2'", "'65000:.*'"} {
			all = append(all, fmt.Sprintf("{actions: {community: {type: %s, communities: [%s]}}}", kind, list),
				fmt.Sprintf("{actions: {largeCommunity: {type: %s, communities: [%s]}}}", kind, list))
		}
	}
	for _, n := range []string{"-4294967296", "-4294967295", "-1", "0", "1", "255", "256", "4294967295", "4294967296"} {
		all = append(all, "{actions: {localPref: "+n+"}}", "{actions: {med: {value: "+n+"}}}", "{actions: {med: {type: mod, value: "+n+"}}}",
			"{actions: {asPrepend: {asn: "+n+"}}}")
	}
	for _, n := range []string{"-1", "0", "255", "256"} {
		all = append(all, "{actions: {asPrepend: {repeat: "+n+"}}}")
	}
	newWorld(t)
	s := newServer(t)
	had := 0
	for _, one := range all {
		var spec bgpv1.BGPConfigurationSpec
		if err := yaml.UnmarshalStrict(fmt.Appendf(nil, strings.ReplaceAll(statement, "\t", " "), one), &spec); err != nil {
			t.Fatalf("%s: %v", one, err)
		}
		node := peering.Node{Name: "a", InternalIPs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}
		d := peering.Decide(spec, node, nil, func(netip.Addr) (peering.Egress, bool) { return peering.Egress{}, false })
		if !d.OK {
			continue
		}
		had++
		if problems := tryApply(t, s, d.State); len(problems) > 0 {
			t.Errorf("%s: %v", one, problems)
		}
	}
	if had < len(all)/3 {
		t.Errorf("peering accepts %d of %d statements", had, len(all))
	}
}

// The learned route has a higher local preference. The import policy accepts all other routes.
func TestALearnedRouteNeverReplacesARouteOfTheCluster(t *testing.T) {
	w := newWorld(t)
	w.inside(" address-family ipv4 unicast", "  neighbor 192.0.2.1 route-map PREFER out", "  network 203.0.113.0/24", "  network 198.51.100.0/24",
		" exit-address-family", "route-map PREFER permit 10", " set local-preference 300")
	spec := bgpv1.BGPConfigurationSpec{
		Global:        bgpv1.Global{ASN: ourAS},
		Neighbors:     []bgpv1.Neighbor{neighborIn(ourAS, "192.0.2.2")},
		NetlinkExport: &bgpv1.NetlinkExport{Enabled: true, Rules: []bgpv1.ExportRule{{Name: "all"}}},
	}
	s := announcing(t, "203.0.113.0/24")
	apply(t, s, decided(t, spec, peering.Node{Own: []peering.PrefixRange{{Prefix: netip.MustParsePrefix("203.0.113.0/24"), Min: 24, Max: 32}}}))
	await(t, s, "198.51.100.0/24 via 192.0.2.2 from 192.0.2.2")
	neighborIs(t, s, "192.0.2.2", "announced to", func(n peering.NeighborStatus) bool { return n.Received[v4] == 2 && n.Sent[v4] == 1 })
}

// A drained node restarts, and a policy of the user sets a local preference. The node adds its
// neighbors, and its routes are the last choice inside of its AS.
func TestADrainedNodeAppliesPoliciesWithLocalPreferences(t *testing.T) {
	w := newWorld(t)
	router := w.inside()
	preference := int64(200)
	spec := bgpv1.BGPConfigurationSpec{
		Global:    bgpv1.Global{ASN: ourAS, ApplyPolicy: &bgpv1.ApplyPolicy{ExportPolicy: &bgpv1.PolicyAssignment{Policies: []string{"prefer"}}}},
		Neighbors: []bgpv1.Neighbor{neighborIn(ourAS, "192.0.2.2")},
		PolicyDefinitions: []bgpv1.PolicyDefinition{{Name: "prefer", Statements: []bgpv1.Statement{
			{Name: "all", Actions: bgpv1.Actions{RouteAction: "accept", LocalPref: &preference}},
		}}},
	}
	imported := []peering.Imported{{Address: netip.MustParsePrefix("198.51.100.1/32"), Interface: "kube-lb0"}}
	s := newServer(t)
	for _, draining := range []bool{true, false, true} {
		announce(t, s, peering.Routes(imported, nil, draining)...)
		apply(t, s, decided(t, spec, peering.Node{Draining: draining}))
		router.Await("198.51.100.1/32 via 192.0.2.1")
		router.AwaitSays("show bgp ipv4 unicast 198.51.100.1/32", map[bool]string{true: "localpref 0,", false: "localpref 200,"}[draining])
	}
}
