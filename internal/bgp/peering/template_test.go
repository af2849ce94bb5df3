package peering_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"purelb.io/purelb/internal/bgp/peering"
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

func TestTemplatesGiveANodeItsASAndAddress(t *testing.T) {
	for _, tt := range examples(t, "templates") {
		t.Run(tt.name, func(t *testing.T) {
			d := peering.Decide(config(t, tt.config), labelled, secrets, egress)
			invariants(t, d)
			got := lines(print(d), "peer ", "left out ", "NodeValueUnusable ", "Duplicate ", "Conflict ", "ParseError ", "Adjusted ", "PeerGroupMissing ")
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("the result differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheRouterIDMayBeInALabel(t *testing.T) {
	d := peering.Decide(config(t, `{global: {asn: 64512, routerID: "${node.labels['example.com/address']}"}}`), labelled, secrets, egress)
	if got := print(d); !d.OK || !strings.Contains(got, "id 192.0.2.11 (template)") {
		t.Error(got)
	}
}
