package peering_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/testing/expect"
)

func named(t *testing.T, name, spec string) bgpv1.BGPConfiguration {
	t.Helper()
	c := bgpv1.BGPConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Generation: 3}}
	expect.NoError(t, yaml.UnmarshalStrict([]byte(spec), &c.Spec))
	return c
}

func TestASharedRouterIDIsAProblem(t *testing.T) {
	rack := func(name string) map[string]string { return map[string]string{"rack": name} }
	const of = "nodeSelector: {matchLabels: {rack: "
	for _, tt := range []struct {
		name  string
		all   []string
		nodes int
		want  bool
	}{
		{"one node", []string{"{global: {asn: 65000, routerID: 192.0.2.1}}"}, 1, false},
		{"two nodes", []string{"{global: {asn: 65000, routerID: 192.0.2.1}}"}, 2, true},
		{"a template", []string{"{global: {asn: 65000, routerID: '${NODE_IP}'}}"}, 2, false},
		{"none", []string{"{global: {asn: 65000}}"}, 2, false},
		{"two configurations with a node each", []string{"{global: {asn: 65000, routerID: 192.0.2.1}, " + of + "a}}}", "{global: {asn: 65000, routerID: 192.0.2.2}, " + of + "b}}}"}, 2, false},
		{"two configurations with a node each and the same router ID", []string{"{global: {asn: 65000, routerID: 192.0.2.1}, " + of + "a}}}", "{global: {asn: 65000, routerID: 192.0.2.1}, " + of + "b}}}"}, 2, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cluster := peering.Cluster{Nodes: []map[string]string{rack("a"), rack("b")}[:tt.nodes]}
			for i, spec := range tt.all {
				cluster.Configs = append(cluster.Configs, named(t, fmt.Sprint("config-", i), spec))
			}
			problems := cluster.Problems(&cluster.Configs[0], func(string, string) (string, error) { return "", nil })
			shared := slices.ContainsFunc(problems, func(p peering.Problem) bool {
				return strings.Contains(p.Message, "2 nodes have the router ID 192.0.2.1")
			})
			if shared != tt.want {
				t.Errorf("the problems are %v; want one about a shared router ID: %v", problems, tt.want)
			}
		})
	}
}

// A problem of one node is not in the common status. A mistake of the configuration is, with or
// without nodes.
func TestTheCommonStatusNeedsNoNode(t *testing.T) {
	node := peering.Node{
		Name: "node-1", Labels: map[string]string{"rack": "1"}, InternalIPs: []netip.Addr{netip.MustParseAddr("192.0.2.10")},
	}
	secrets := func(name, key string) (string, error) {
		return "", errors.New("secret purelb/" + name + " does not exist")
	}
	egress := func(netip.Addr) (peering.Egress, bool) {
		return peering.Egress{Interface: "eth0", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.10")}}, true
	}
	for name, spec := range map[string]string{
		"no mistake":                "{global: {asn: 65000}, neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 65001}}]}",
		"no AS":                     "{global: {asn: 0}}",
		"a missing group":           "{global: {asn: 65000}, neighbors: [{config: {neighborAddress: 192.0.2.1, peerGroup: none}}]}",
		"a missing Secret":          "{global: {asn: 65000}, neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 65001, authPasswordSecretRef: {name: bgp, key: password}}}]}",
		"for other nodes":           "{global: {asn: 65000}, neighbors: [{config: {neighborAddress: 192.0.2.1, peerGroup: none}, nodeSelector: {matchLabels: {rack: \"2\"}}}]}",
		"for no node":               "{global: {asn: 65000}, neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 65001}, nodeSelector: {matchLabels: {rack: \"2\"}}}]}",
		"no router ID of this node": "{global: {asn: 65000, routerID: \"${NODE_EXTERNAL_IP}\"}}",
		"a bad router ID":           "{global: {asn: 65000, routerID: \"${NODE}\"}}",
		"no IPv6 next hop":          "{global: {asn: 65000}, neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 65001}, afiSafis: [{family: ipv4-unicast}, {family: ipv6-unicast}]}]}",
	} {
		t.Run(name, func(t *testing.T) {
			c := named(t, "default", spec)
			want := peering.ConfigurationStatus(c.Generation, peering.Decide(c.Spec, node, secrets, egress), c.Status, noon)
			cluster := peering.Cluster{Configs: []bgpv1.BGPConfiguration{c}, Nodes: []map[string]string{node.Labels}}
			if diff := cmp.Diff(want, cluster.CommonStatus(&cluster.Configs[0], secrets, noon)); diff != "" {
				t.Errorf("the common status with a node and without one (-with +without):\n%s", diff)
			}
		})
	}
}

func TestTheStatusOfAnUnusedConfigurationStays(t *testing.T) {
	cluster := peering.Cluster{Configs: []bgpv1.BGPConfiguration{named(t, "other", "{global: {asn: 65000}}"), named(t, "default", "{global: {asn: 65000}}")}}
	c := &cluster.Configs[0]
	s := cluster.CommonStatus(c, nil, noon)
	ready := s.Conditions[0]
	if s.Message != ready.Message || ready.Type != bgpv1.ConditionReady || ready.Reason != peering.ReasonNotInEffect ||
		ready.Status != metav1.ConditionFalse || s.ObservedGeneration != 3 || ready.ObservedGeneration != 3 {
		t.Errorf("%+v", s)
	}
	c.Status = s
	if diff := cmp.Diff(s, cluster.CommonStatus(c, nil, noon.Add(time.Hour))); diff != "" {
		t.Errorf("an hour later, the status differs:\n%s", diff)
	}
}

func TestAnUnusableSecretHasAReason(t *testing.T) {
	for _, tt := range []struct {
		secret peering.Secret
		want   string
	}{
		{peering.Secret{Known: true, Exists: true, Data: map[string][]byte{"password": []byte("hush")}}, "hush"},
		{peering.Secret{}, "secret purelb/bgp cannot be read yet"},
		{peering.Secret{Known: true}, "secret purelb/bgp does not exist"},
		{peering.Secret{Known: true, Exists: true}, `secret purelb/bgp has no key "password"`},
		{peering.Secret{Forbidden: true}, "there is no right to read the secret purelb/bgp: add bgp to gobgp.passwordSecrets in the values of the chart"},
	} {
		got, err := tt.secret.Value("purelb", "bgp", "password")
		if err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("Secret %+v: the error is %q, want %q", tt.secret, got, tt.want)
		}
	}
}
