package peering_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/bgp/peering"
)

// born returns a BGPConfiguration that was created at the given second.
func born(t *testing.T, second int64, name, spec string) bgpv1.BGPConfiguration {
	t.Helper()
	c := named(t, name, spec)
	c.CreationTimestamp = metav1.Time{Time: time.Unix(second, 0)}
	return c
}

// on returns the decision for a node with the label rack.
func on(all []bgpv1.BGPConfiguration, rack string) peering.Decision {
	labels := map[string]string{"rack": rack}
	m := peering.MergeConfigurations(peering.Selected(all, "", labels), "")
	node := peering.Node{Name: "n", Labels: labels, InternalIPs: []netip.Addr{netip.MustParseAddr("192.0.2.10")}}
	egress := func(netip.Addr) (peering.Egress, bool) {
		return peering.Egress{Interface: "eth0", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.10"), netip.MustParseAddr("2001:db8::10")}}, true
	}
	return m.Decide(node, func(name, key string) (string, error) { return name + "." + key, nil }, egress)
}

// sessions prints the neighbors and their ASes.
func sessions(d peering.Decision) string {
	var all []string
	for _, p := range d.State.Peers {
		all = append(all, p.Name()+" AS"+fmt.Sprint(p.ASN))
	}
	return strings.Join(all, ", ")
}

func firstSet(problems []peering.Problem) string {
	var all []string
	for _, p := range problems {
		all = append(all, p.String())
	}
	return strings.Join(all, "\n")
}

const (
	rackA   = "nodeSelector: {matchLabels: {rack: a}}, "
	rackB   = "nodeSelector: {matchLabels: {rack: b}}, "
	anyRack = "nodeSelector: {}, "
)

// Manifests without a nodeSelector have the same effect as before there were selectors.
func TestSelectedConfigurationsOfANode(t *testing.T) {
	const plain = "global: {asn: 65000}}"
	standard, draft := born(t, 5, "default", "{"+plain), born(t, 1, "draft", "{"+plain)
	a, b, everywhere := born(t, 2, "a", "{"+rackA+plain), born(t, 3, "b", "{"+rackB+plain), born(t, 4, "all", "{"+anyRack+plain)
	malformed := born(t, 1, "malformed", "{nodeSelector: {matchExpressions: [{key: rack, operator: Is}]}, "+plain)
	chosenDefault := born(t, 1, "default", "{"+rackB+plain)
	gone := born(t, 1, "gone", "{"+anyRack+plain)
	goneDefault := born(t, 1, "default", "{"+plain)
	gone.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	goneDefault.DeletionTimestamp = gone.DeletionTimestamp
	foreign, foreignA := born(t, 1, "default", "{"+plain), born(t, 1, "a", "{"+rackA+plain)
	foreign.Namespace, foreignA.Namespace = "k8gobgp-system", "k8gobgp-system"
	for _, tt := range []struct {
		name string
		all  []bgpv1.BGPConfiguration
		want string // on a node of rack a
	}{
		{"none", nil, ""},
		{"default", []bgpv1.BGPConfiguration{standard}, "default"},
		{"a single one", []bgpv1.BGPConfiguration{draft}, "draft"},
		{"a draft beside default", []bgpv1.BGPConfiguration{draft, standard}, "default"},
		{"two without a selector, and no default", []bgpv1.BGPConfiguration{draft, born(t, 2, "other", "{"+plain)}, ""},
		{"default and those that select the node, the oldest first", []bgpv1.BGPConfiguration{standard, b, everywhere, a}, "a all default"},
		{"a single one without a selector, and one with a selector", []bgpv1.BGPConfiguration{draft, a}, "draft a"},
		{"no default", []bgpv1.BGPConfiguration{a, b}, "a"},
		{"another one beside a default that selects other nodes", []bgpv1.BGPConfiguration{chosenDefault, draft}, ""},
		{"a malformed selector", []bgpv1.BGPConfiguration{malformed, standard}, "default"},
		{"one that is being deleted", []bgpv1.BGPConfiguration{gone, standard}, "default"},
		{"a single one beside a default that is being deleted", []bgpv1.BGPConfiguration{goneDefault, draft}, "draft"},
		{"only one that is being deleted", []bgpv1.BGPConfiguration{goneDefault}, ""},
		{"only in another namespace", []bgpv1.BGPConfiguration{foreign}, "k8gobgp-system/default"},
		{"a default of another namespace beside one here", []bgpv1.BGPConfiguration{foreign, standard}, "default"},
		{"a default of another namespace beside a selector here", []bgpv1.BGPConfiguration{foreign, b}, ""},
		{"a selector of another namespace", []bgpv1.BGPConfiguration{foreignA, standard}, "k8gobgp-system/a default"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for range 2 {
				var names []string
				for _, c := range peering.Selected(tt.all, "", map[string]string{"rack": "a"}) {
					names = append(names, peering.Ref(c, ""))
				}
				if got := strings.Join(names, " "); got != tt.want {
					t.Errorf("%q, want %q", got, tt.want)
				}
				slices.Reverse(tt.all) // the order of the list has no effect
			}
		})
	}
}

func TestConfigurationsOfANodeAreMerged(t *testing.T) {
	all := []bgpv1.BGPConfiguration{
		born(t, 1, "default", `{global: {asn: 65000}, peerGroups: [{config: {peerGroupName: tor, peerAsn: 65001}}],
			neighbors: [{config: {neighborAddress: 192.0.2.1, peerGroup: tor}}]}`),
		born(t, 2, "a", "{"+rackA+`global: {asn: 65000, useMultiplePaths: true}, neighbors: [{config: {neighborAddress: 192.0.2.2, peerGroup: tor}}]}`),
		born(t, 3, "b", "{"+rackB+`global: {asn: 65000}, peerGroups: [{config: {peerGroupName: tor, peerAsn: 65002}}],
			neighbors: [{config: {neighborAddress: 192.0.2.3, peerGroup: tor}}, {config: {neighborAddress: 192.0.2.4, peerGroup: tor, peerAsn: 65003}}]}`),
	}
	a, b := on(all, "a"), on(all, "b")
	if got, want := sessions(a), "192.0.2.1 AS65001, 192.0.2.2 AS65001"; got != want || !a.State.Global.Multipath {
		t.Errorf("rack a has %s, multipath %t; want %s, true", got, a.State.Global.Multipath, want)
	}
	// A group name refers to the group of the same object.
	if got, want := sessions(b), "192.0.2.1 AS65001, 192.0.2.3 AS65002, 192.0.2.4 AS65003"; got != want || b.State.Global.Multipath {
		t.Errorf("rack b has %s, multipath %t; want %s, false", got, b.State.Global.Multipath, want)
	}
	if text := firstSet(a.Problems) + firstSet(b.Problems); text != "" {
		t.Error(text)
	}
}

// The older BGPConfiguration has priority over the younger one.
func TestConflictsAreReportedAndChangeNothing(t *testing.T) {
	const older = `{global: {asn: 65000, listenPort: 1790}, netlinkImport: {enabled: true}, neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 65001}}],
		policyDefinitions: [{name: all, statements: [{actions: {routeAction: accept}}]}]}`
	const before = "192.0.2.1 AS65001"
	const left = " says otherwise and is older, so nothing of this BGPConfiguration is in effect on nodes that both select: "
	for _, tt := range []struct{ name, younger, sessions, absent, problem string }{
		{"another AS", "global: {asn: 65009}, neighbors: [{config: {neighborAddress: 192.0.2.2, peerAsn: 65001}}]", before, "a",
			"a: spec.global.asn: default" + left + "write the same, or let them select different nodes"},
		{"a policy for all", "global: {asn: 65000, applyPolicy: {exportPolicy: {defaultAction: reject}}}, neighbors: [{config: {neighborAddress: 192.0.2.2, peerAsn: 65001}}]", before, "a",
			"a: spec.global.applyPolicy: default" + left + "write the same, or name the policies at the neighbors or in a peer group"},
		{"another option of the node", "global: {asn: 65000, listenPort: 1791}, neighbors: [{config: {neighborAddress: 192.0.2.2, peerAsn: 65001}}]", before + ", 192.0.2.2 AS65001", "",
			"a: spec.global.listenPort: is not in effect, because default says otherwise and is older: write the same, or remove it"},
		{"other interfaces", "global: {asn: 65000}, netlinkImport: {enabled: true, interfaceList: [lo]}", before, "",
			"a: spec.netlinkImport: is not in effect, because default says otherwise and is older: write the same, or remove it"},
		{"a neighbor of the older one", "global: {asn: 65000}, neighbors: [{config: {neighborAddress: 192.0.2.2, peerAsn: 65001}}, {config: {neighborAddress: 192.0.2.1, peerAsn: 65009}}]", before + ", 192.0.2.2 AS65001", "",
			"a: spec.neighbors[1].config: an earlier neighbor is 192.0.2.1 too (see default: spec.neighbors[0]), so this one is left out: remove one of them"},
		{"a mistake of its own", "global: {asn: 65000}, neighbors: [{config: {neighborAddress: 192.0.2.2, peerGroup: none}}]", before, "",
			`a: spec.neighbors[0].config.peerGroup: there is no group "none" in spec.peerGroups`},
		{"the same values", "global: {asn: 65000, listenPort: 1790}, netlinkImport: {enabled: true}, policyDefinitions: [{name: all, statements: [{actions: {routeAction: accept}}]}]", before, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			all := []bgpv1.BGPConfiguration{born(t, 2, "a", "{"+rackA+tt.younger+"}"), born(t, 1, "default", older)}
			d := on(all, "a")
			if got := sessions(d); got != tt.sessions || d.State.Global.ASN != 65000 || d.State.Global.Port != 1790 || !d.OK {
				t.Errorf("the neighbors are %s in AS %d at port %d, want the neighbors %s", got, d.State.Global.ASN, d.State.Global.Port, tt.sessions)
			}
			if got := firstSet(d.Problems); got != tt.problem {
				t.Errorf("problems:\n%s\nwant:\n%s", got, tt.problem)
			}
			if got := strings.Join(d.Absent, " "); got != tt.absent {
				t.Errorf("left out: %q, want %q", got, tt.absent)
			}
			if elsewhere := on(all, "b"); sessions(elsewhere) != before || len(elsewhere.Problems) > 0 {
				t.Errorf("another node has the neighbors %s and the problems %s", sessions(elsewhere), firstSet(elsewhere.Problems))
			}
			// The status of the object has the same problem as the node, without the name of the object.
			cluster := peering.Cluster{Configs: all, Nodes: []map[string]string{{"rack": "a"}, {"rack": "b"}}}
			_, text, _ := strings.Cut(tt.problem, "a: ")
			if got := firstSet(cluster.Problems(&all[0], nil)); got != text {
				t.Errorf("the status of the object has:\n%s\nwant:\n%s", got, text)
			}
			if got := firstSet(cluster.Problems(&all[1], nil)); got != "" {
				t.Errorf("the status of the older object has a problem: %s", got)
			}
		})
	}
}

// Two objects have no conflict if no node is selected by both.
func TestAConflictNeedsANodeThatBothSelect(t *testing.T) {
	all := []bgpv1.BGPConfiguration{born(t, 1, "a", "{"+rackA+"global: {asn: 65001}}"), born(t, 2, "b", "{"+rackB+"global: {asn: 65002}}")}
	cluster := peering.Cluster{Configs: all, Nodes: []map[string]string{{"rack": "a"}, {"rack": "b"}}}
	for i := range all {
		if s := cluster.CommonStatus(&all[i], nil, noon); s.Conditions[0].Status != metav1.ConditionTrue {
			t.Errorf("%s has the problem %s", all[i].Name, s.Message)
		}
	}
	cluster.Nodes = cluster.Nodes[:1]
	if s := cluster.CommonStatus(&all[1], nil, noon); s.Message != "spec.nodeSelector matches none of the 1 nodes" {
		t.Errorf("without a node of its rack, the message is %q", s.Message)
	}
}

// Two objects may use the same name for different sets, policies and groups.
func TestNamesBelongToTheirObject(t *testing.T) {
	of := func(prefix string) string {
		return `global: {asn: 65000}, definedSets: [{type: prefix, name: mine, prefixes: [{ipPrefix: ` + prefix + `}]}],
			policyDefinitions: [{name: mine, statements: [{conditions: {prefixSet: {name: mine}}, actions: {routeAction: reject}}]}],
			peerGroups: [{config: {peerGroupName: mine, peerAsn: 65001}, applyPolicy: {exportPolicy: {policies: [mine]}}}], `
	}
	all := []bgpv1.BGPConfiguration{
		born(t, 1, "default", "{"+of("10.1.0.0/16")+"neighbors: [{config: {neighborAddress: 192.0.2.1, peerGroup: mine}}]}"),
		born(t, 2, "a", "{"+rackA+of("10.2.0.0/16")+"neighbors: [{config: {neighborAddress: 192.0.2.2, peerGroup: mine}}]}"),
	}
	d := on(all, "a")
	if text := firstSet(d.Problems); text != "" {
		t.Fatal(text)
	}
	rejected := map[string]string{}
	for _, s := range d.State.Export.Statements {
		if s.Then.Verdict != peering.Reject || s.If.Prefixes == nil || s.If.Neighbors == nil {
			continue
		}
		for _, set := range d.State.Sets {
			switch {
			case set.Kind == peering.PrefixSet && set.Name == s.If.Prefixes.Name:
				rejected[s.If.Neighbors.Name] += set.Prefixes[0].Prefix.String()
			case set.Kind == peering.NeighborSet && set.Name == s.If.Neighbors.Name:
				rejected[set.Name] = set.List[0] + " " + rejected[set.Name]
			}
		}
	}
	var texts []string
	for _, text := range rejected {
		texts = append(texts, text)
	}
	slices.Sort(texts)
	if got, want := strings.Join(texts, "; "), "192.0.2.1/32 10.1.0.0/16; 192.0.2.2/32 10.2.0.0/16"; got != want {
		t.Errorf("the rejected routes are %s, want %s", got, want)
	}
}

// The namespace of PureLB has a Secret of the same name. It must not be used instead.
func TestSecretsOfOtherNamespacesAreNotRead(t *testing.T) {
	foreign := born(t, 1, "default", "{global: {asn: 65000}, neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 65001, authPasswordSecretRef: {name: bgp, key: password}}}]}")
	foreign.Namespace = "k8gobgp-system"
	d := on([]bgpv1.BGPConfiguration{foreign}, "a")
	if got := d.State.Peers[0].Password; got != "k8gobgp-system/bgp.password" {
		t.Errorf("the password is %q", got)
	}
	err := peering.ForeignSecret("k8gobgp-system/bgp", "purelb-system")
	if err == nil || err.Error() != "secret k8gobgp-system/bgp is not read, only those of purelb-system are: move the BGPConfiguration and its Secret there" {
		t.Error(err)
	}
	if err := peering.ForeignSecret("bgp", "purelb-system"); err != nil {
		t.Error(err)
	}
}
