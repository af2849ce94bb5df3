package peering_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/util/yaml"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/bgp/peering"
)

// FuzzDecide decides about any spec. Decide must not panic, its state must be valid but for what the
// schema of the CRD limits, and a second decision must be the same.
func FuzzDecide(f *testing.F) {
	for _, text := range []string{
		`{global: {asn: 64512}}`,
		`{global: {asn: 64512, routerID: '${NODE_IP}', applyPolicy: {exportPolicy: {policies: [p], defaultAction: reject}}},
		  neighbors: [{config: {neighborAddress: 192.0.2.1, peerGroup: tor}, applyPolicy: {exportPolicy: {policies: [p]}}},
		    {config: {neighborInterface: eth1, peerAsn: 64512}, routeReflector: {routeReflectorClient: true}}],
		  peerGroups: [{config: {peerGroupName: tor, peerAsn: 64513, authPasswordSecretRef: {name: bgp, key: password}}, bfd: {}, ttlSecurity: {}}],
		  dynamicNeighbors: [{prefix: 192.0.2.0/24, peerGroup: tor}, {prefix: '::/0', peerGroup: tor}],
		  definedSets: [{type: prefix, name: s, prefixes: [{ipPrefix: 192.0.2.0/24, maskLengthMax: 32}]}, {type: neighbor, name: s, list: ['192.0.2.0/31', '::/1']}],
		  policyDefinitions: [{name: p, statements: [{conditions: {prefixSet: {name: s}, neighborSet: {name: s, match: invert}}, actions: {routeAction: accept, med: {type: mod, value: 1}}}]}]}`,
		`{global: {asn: 64512}, vrfs: [{name: red, rd: '1:1', netlinkImport: {enabled: true, interfaceList: [a]}, netlinkExport: {enabled: true}}],
		  neighbors: [{config: {neighborAddress: 'fe80::1%eth0', peerAsn: 1, vrf: red}, timers: {config: {holdTime: 3}}, gracefulRestart: {enabled: true}}],
		  netlinkImport: {enabled: true, interfaceList: ['[']}, netlinkExport: {enabled: true, rules: [{name: a, communityList: ['1:1']}]}}`,
		`{global: {asn: 64512, routerID: "${node.annotations['example.com/asn']}"}, neighbors: [{config: {neighborGateway: ipv4, peerAsn: external, localAsn: "${node.labels['rack']}"}},
		  {config: {neighborInterface: eth1, peerAsn: internal, localAsn: 7}, transport: {localAddress: "${node.annotations['example.com/broken']}"}}]}`,
	} {
		object, err := yaml.ToJSON([]byte(text))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(object)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var spec bgpv1.BGPConfigurationSpec
		if json.Unmarshal(text, &spec) != nil {
			return
		}
		d := peering.Decide(spec, node, secrets, egress)
		invariants(t, d)
		again := peering.Decide(*spec.DeepCopy(), node, secrets, egress)
		if !reflect.DeepEqual(d, again) {
			t.Error("the second decision differs from the first")
		}
		if c := peering.Diff(d.State.Peers, again.State.Peers); !reflect.ValueOf(c).IsZero() {
			t.Errorf("a state differs from itself by %+v", c)
		}
	})
}
