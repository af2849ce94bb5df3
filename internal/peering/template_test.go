package peering_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"purelb.io/purelb/internal/peering"
)

// labelled is the node of the tables with annotations and labels for templates.
var labelled = func() peering.Node {
	n := node
	n.Labels = map[string]string{"rack": "1", "example.com/asn": "64700", "example.com/address": "192.0.2.11"}
	n.Annotations = map[string]string{
		"example.com/asn": "4200000001", "example.com/address": "2001:db8::11", "example.com/broken": "rack", "example.com/trans": "23456",
	}
	return n
}()

const (
	noNumber  = "set it, such as with kubectl annotate node node-a example.com/none=64512"
	noAddress = "set it, such as with kubectl label node node-a none=192.0.2.10"
)

func TestTemplatesGiveANodeItsASAndAddress(t *testing.T) {
	tests := []struct{ name, config, want string }{
		{
			"by annotation", `{neighbors: [{config: {neighborInterface: eth1, peerAsn: external, localAsn: "${node.annotations['example.com/asn']}"}, transport: {localAddress: "${node.annotations['example.com/address']}"}}]}`,
			"peer %eth1 as any 0 from 4200000001 IPv4 IPv6 90/30/10 by 2001:db8::11\n",
		},
		{
			"by label, in a group", `{peerGroups: [{config: {peerGroupName: tor, peerAsn: internal, localAsn: "${node.labels['example.com/asn']}"}, transport: {localAddress: "${node.labels['example.com/address']}"},
				routeReflector: {routeReflectorClient: true}}],
				neighbors: [{config: {neighborAddress: 192.0.2.1, peerGroup: tor}, afiSafis: [{family: ipv4-unicast}]}]}`,
			"peer 192.0.2.1 as 64700 from 64700 IPv4 90/30/10 by 192.0.2.11 client\n",
		},
		{
			"by label, in the neighbor's AS, as a client", `{peerGroups: [{config: {peerGroupName: tor, peerAsn: 64700, localAsn: "${node.labels['example.com/asn']}"}, routeReflector: {routeReflectorClient: true}}],
				neighbors: [{config: {neighborInterface: eth1, peerGroup: tor}}]}`,
			"peer %eth1 as 64700 from 64700 IPv4 IPv6 90/30/10 client\n",
		},
		{
			"a missing annotation", `{neighbors: [{config: {neighborInterface: eth1, peerAsn: external, localAsn: "${node.annotations['example.com/none']}"}}]}`,
			`left out %eth1 as 0: spec.neighbors[0].config.localAsn: the node node-a has no annotation example.com/none: ` + noNumber + `
here NodeValueUnusable spec.neighbors[0].config.localAsn: the node node-a has no annotation example.com/none: ` + noNumber + "\n",
		},
		{
			"an annotation that is not a number", `{neighbors: [{config: {neighborInterface: eth1, peerAsn: 1, localAsn: "${node.annotations['example.com/broken']}"}}]}`,
			`left out %eth1 as 0: spec.neighbors[0].config.localAsn: the annotation example.com/broken of the node node-a is "rack", which is not the number of an autonomous system: correct it, such as with kubectl annotate --overwrite node node-a example.com/broken=64512
here NodeValueUnusable spec.neighbors[0].config.localAsn: the annotation example.com/broken of the node node-a is "rack", which is not the number of an autonomous system: correct it, such as with kubectl annotate --overwrite node node-a example.com/broken=64512
`,
		},
		{
			"an annotation with a reserved number", `{neighbors: [{config: {neighborInterface: eth1, peerAsn: 1, localAsn: "${node.annotations['example.com/trans']}"}}]}`,
			`left out %eth1 as 0: spec.neighbors[0].config.localAsn: the annotation example.com/trans of the node node-a is "23456", which is not the number of an autonomous system: correct it, such as with kubectl annotate --overwrite node node-a example.com/trans=64512
here NodeValueUnusable spec.neighbors[0].config.localAsn: the annotation example.com/trans of the node node-a is "23456", which is not the number of an autonomous system: correct it, such as with kubectl annotate --overwrite node node-a example.com/trans=64512
`,
		},
		{
			"a missing label with the address", `{neighbors: [{config: {neighborInterface: eth1, peerAsn: 1}, transport: {localAddress: "${node.labels['none']}"}}]}`,
			`left out %eth1 as 1: spec.neighbors[0].transport.localAddress: the node node-a has no label none: ` + noAddress + `
here NodeValueUnusable spec.neighbors[0].transport.localAddress: the node node-a has no label none: ` + noAddress + "\n",
		},
		{
			"a label that is not an address", `{neighbors: [{config: {neighborInterface: eth1, peerAsn: 1}, transport: {localAddress: "${node.labels['rack']}"}}]}`,
			`left out %eth1 as 1: spec.neighbors[0].transport.localAddress: the label rack of the node node-a is "1", which is not an address that a session can be from: correct it, such as with kubectl label --overwrite node node-a rack=192.0.2.10
here NodeValueUnusable spec.neighbors[0].transport.localAddress: the label rack of the node node-a is "1", which is not an address that a session can be from: correct it, such as with kubectl label --overwrite node node-a rack=192.0.2.10
`,
		},
		{
			"an address of the other family on this node", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 1}, transport: {localAddress: "${node.annotations['example.com/address']}"}}]}`,
			`left out 192.0.2.1 as 1: spec.neighbors[0].transport.localAddress: a session with 192.0.2.1 cannot be from 2001:db8::11: write an address of the same family
here Conflict spec.neighbors[0].transport.localAddress: a session with 192.0.2.1 cannot be from 2001:db8::11: write an address of the same family
`,
		},
		{
			"neighbors, groups and dynamic neighbors of other nodes", `{peerGroups: [{config: {peerGroupName: tor, peerAsn: 64513, localAsn: "${node.labels['none']}"}, nodeSelector: {matchLabels: {rack: '2'}}, routeReflector: {routeReflectorClient: true}}],
				neighbors: [{config: {neighborInterface: eth1, peerGroup: tor}}, {config: {neighborInterface: eth2, peerAsn: 1}, transport: {localAddress: "${node.labels['none']}"}, nodeSelector: {matchLabels: {rack: '2'}}},
					{config: {neighborInterface: eth3, peerAsn: 1}}],
				dynamicNeighbors: [{prefix: 192.0.2.0/24, peerGroup: tor}]}`,
			"peer %eth3 as 1 from 64512 IPv4 IPv6 90/30/10\n",
		},
		{
			"mistakes that every node reports", `{peerGroups: [{config: {peerGroupName: tor, peerAsn: 64513}, allowOwnAsn: 11}],
				neighbors: [{config: {neighborInterface: eth1, peerGroup: tor, localAsn: "${node.labels['example.com/asn']}"}}]}`,
			`peer %eth1 as 64513 from 64700 IPv4 IPv6 90/30/10
ParseError spec.peerGroups[0].allowOwnAsn: 11 is not from 0 to 10, so 0 is used
`,
		},
		{
			"a text that is not a template", `{neighbors: [{config: {neighborInterface: eth1, peerAsn: 1, localAsn: "${node.name}"}}]}`,
			`left out %eth1 as 0: spec.neighbors[0].config.localAsn: "${node.name}" is neither the number of an autonomous system nor a template: write ${node.annotations['key']} or ${node.labels['key']}
ParseError spec.neighbors[0].config.localAsn: "${node.name}" is neither the number of an autonomous system nor a template: write ${node.annotations['key']} or ${node.labels['key']}
`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := peering.Merged{Spec: config(t, tt.config)}.Decide(labelled, secrets, egress)
			invariants(t, d)
			got := lines(print(d), "peer ", "left out ", "NodeValueUnusable ", "Duplicate ", "Conflict ", "ParseError ", "Adjusted ", "PeerGroupMissing ")
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("the result differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheRouterIDMayBeInALabel(t *testing.T) {
	d := peering.Merged{Spec: config(t, `{global: {asn: 64512, routerID: "${node.labels['example.com/address']}"}}`)}.Decide(labelled, secrets, egress)
	if got := print(d); !d.OK || !strings.Contains(got, "id 192.0.2.11 (template)") {
		t.Error(got)
	}
}
