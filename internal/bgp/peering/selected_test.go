package peering_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/testing/expect"
)

// born returns a BGPConfiguration that was created at the given second.
func born(t *testing.T, second int64, name, spec string) bgpv1.BGPConfiguration {
	t.Helper()
	c := named(t, name, spec)
	c.CreationTimestamp = metav1.Time{Time: time.Unix(second, 0)}
	return c
}

const (
	rackA     = "nodeSelector: {matchLabels: {rack: a}}, "
	rackB     = "nodeSelector: {matchLabels: {rack: b}}, "
	anyRack   = "nodeSelector: {}, "
	plainSpec = "global: {asn: 65000}}"
)

// The four nodes are two in rack a, and two in rack b.
func racks(configs []bgpv1.BGPConfiguration) peering.Cluster {
	a, b := map[string]string{"rack": "a"}, map[string]string{"rack": "b"}
	return peering.Cluster{Configs: configs, Nodes: []map[string]string{a, a, b, b}}
}

func TestOneConfigurationCountsOnANode(t *testing.T) {
	standard, draft, other := born(t, 5, "default", "{"+plainSpec), born(t, 1, "draft", "{"+plainSpec), born(t, 2, "other", "{"+plainSpec)
	a, a2, b, everywhere := born(t, 4, "a", "{"+rackA+plainSpec), born(t, 6, "a2", "{"+rackA+plainSpec), born(t, 3, "b", "{"+rackB+plainSpec), born(t, 5, "all", "{"+anyRack+plainSpec)
	twin := born(t, 4, "twin", "{"+rackA+plainSpec)
	malformed := born(t, 1, "malformed", "{nodeSelector: {matchExpressions: [{key: rack, operator: Is}]}, "+plainSpec)
	gone, goneDefault := born(t, 1, "gone", "{"+anyRack+plainSpec), born(t, 1, "default", "{"+plainSpec)
	gone.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	goneDefault.DeletionTimestamp = gone.DeletionTimestamp
	for _, tt := range []struct {
		name string
		all  []bgpv1.BGPConfiguration
		want string // on a node of rack a
	}{
		{"none", nil, ""},
		{"default", []bgpv1.BGPConfiguration{standard}, "default"},
		{"a single one", []bgpv1.BGPConfiguration{draft}, "draft"},
		{"an older draft beside default", []bgpv1.BGPConfiguration{draft, standard}, "default"},
		{"two without a selector, and no default", []bgpv1.BGPConfiguration{other, draft}, "draft"},
		{"default and those that select the node: the oldest of these", []bgpv1.BGPConfiguration{standard, b, everywhere, a, a2}, "a"},
		{"the same second", []bgpv1.BGPConfiguration{twin, a}, "a"},
		{"one for other nodes", []bgpv1.BGPConfiguration{b}, ""},
		{"a malformed selector", []bgpv1.BGPConfiguration{malformed, standard}, "default"},
		{"one that is being deleted", []bgpv1.BGPConfiguration{gone, standard}, "default"},
		{"a single one beside a default that is being deleted", []bgpv1.BGPConfiguration{goneDefault, draft}, "draft"},
		{"only one that is being deleted", []bgpv1.BGPConfiguration{goneDefault}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for range 2 {
				got := ""
				if c := peering.Chosen(tt.all, map[string]string{"rack": "a"}); c != nil {
					got = c.Name
				}
				expect.Equal(t, "the BGPConfiguration", got, tt.want)
				slices.Reverse(tt.all) // the order of the list has no effect
			}
		})
	}
}

// Every BGPConfiguration that some node does not use although it selects the node says so.
func TestConfigurationsNameThoseThatCountInstead(t *testing.T) {
	const remedy = ", and only one counts on a node: write all that is for a node into one, or let spec.nodeSelector select different nodes"
	all := []bgpv1.BGPConfiguration{
		born(t, 1, "a", "{"+rackA+plainSpec), born(t, 2, "a2", "{"+rackA+plainSpec), born(t, 3, "both", "{nodeSelector: {matchExpressions: [{key: rack, operator: In, values: [a, b]}]}, "+plainSpec),
		born(t, 4, "default", "{"+plainSpec), born(t, 5, "draft", "{"+plainSpec), born(t, 6, "c", "{nodeSelector: {matchLabels: {rack: c}}, "+plainSpec),
		born(t, 7, "malformed", "{nodeSelector: {matchExpressions: [{key: rack, operator: Is}]}, "+plainSpec),
	}
	for _, tt := range []struct{ name, want string }{
		{"a", "True: the configuration is valid; the BGPNodeStatus of each node says what is in effect there"},
		{"a2", "False NotInEffect: nodes use the BGPConfiguration a" + remedy},
		{"both", "False ConfigurationInvalid: spec.nodeSelector: 2 of the 4 nodes that it selects use the BGPConfiguration a" + remedy},
		{"default", "False NotInEffect: nodes use the BGPConfiguration a, both" + remedy},
		{"draft", "False NotInEffect: nodes use the BGPConfiguration a, both" + remedy},
		{"c", "False NotInEffect: spec.nodeSelector matches none of the 4 nodes"},
		{"malformed", `False NotInEffect: spec.nodeSelector selects no node: "Is" is not a valid label selector operator: correct it`},
	} {
		cluster := racks(all)
		i := slices.IndexFunc(cluster.Configs, func(c bgpv1.BGPConfiguration) bool { return c.Name == tt.name })
		ready := cluster.CommonStatus(&cluster.Configs[i], nil, noon).Conditions[0]
		got := strings.Replace(fmt.Sprintf("%s %s: %s", ready.Status, ready.Reason, ready.Message), "True ReconcileSuccess", "True", 1)
		expect.Equal(t, "the status of "+tt.name, got, tt.want)
	}
	// One for all nodes is in order if some node uses it.
	cluster := racks([]bgpv1.BGPConfiguration{all[0], all[3]})
	if s := cluster.CommonStatus(&cluster.Configs[1], nil, noon); s.Conditions[0].Status != metav1.ConditionTrue {
		t.Errorf("default has the problem %s", s.Message)
	}
}

// Files have no nodes. Then a selector may select some.
func TestWithoutNodesASelectorMayBeInEffect(t *testing.T) {
	cluster := peering.Cluster{Configs: []bgpv1.BGPConfiguration{born(t, 1, "a", "{"+rackA+plainSpec), born(t, 2, "default", "{"+plainSpec), born(t, 3, "draft", "{"+plainSpec)}}
	for i, want := range []string{"", "", "nodes use the BGPConfiguration default"} {
		got, _, _ := strings.Cut(cluster.OutOfEffect(&cluster.Configs[i]), ",")
		expect.Equal(t, cluster.Configs[i].Name, got, want)
	}
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
}

// Each node has its own gateway, so any address may be the address of a gateway.
func TestAddressesOfGatewaysAreKnownPeers(t *testing.T) {
	all := []bgpv1.BGPConfiguration{born(t, 1, "default", "{global: {asn: 65000}, neighbors: [{config: {neighborGateway: ipv4, peerAsn: 65001}}]}")}
	unknown := peering.UnknownPeers(all, []string{"192.0.2.1", "2001:db8::1", "eth1"})
	if got := strings.Join(unknown, " "); got != "2001:db8::1 eth1" {
		t.Errorf("unknown: %s", got)
	}
}
