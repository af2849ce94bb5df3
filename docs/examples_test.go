// Package docs tests the documentation: it applies the examples to a real API server, and reads
// them as PureLB does.
package docs

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/testing/apitest"
	"purelb.io/purelb/internal/testing/expect"
)

func TestMain(m *testing.M) { os.Exit(apitest.Run(m)) }

func TestExamplesWorkAsWritten(t *testing.T) {
	server := apitest.Shared(t)
	apitest.EnsureNamespace(t, "purelb-system")
	for name, example := range examples(t) {
		t.Run(name, func(t *testing.T) {
			if out, err := server.Kubectl(example, "apply", "--dry-run=server", "--validate=strict", "-f", "-"); err != nil {
				t.Fatalf("%v\n%s\nof\n%s", err, out, example)
			}
			objects, err := apitest.Parse([]byte(example))
			expect.NoError(t, err)
			var groups []v2.ServiceGroup
			var agents []v2.LBNodeAgent
			var peerings []bgpv1.BGPConfiguration
			for _, o := range objects {
				switch o.GetKind() {
				case config.KindServiceGroup:
					groups = append(groups, apitest.As[v2.ServiceGroup](t, o))
				case config.KindLBNodeAgent:
					agents = append(agents, apitest.As[v2.LBNodeAgent](t, o))
				case "BGPConfiguration":
					peerings = append(peerings, apitest.As[bgpv1.BGPConfiguration](t, o))
				}
			}
			for _, p := range config.For(groups, agents, "purelb-system").Problems {
				t.Errorf("%s %s: %s", p.Kind, p.Name, p)
			}
			if len(peerings) > 0 {
				peersAsWritten(t, peerings)
			}
		})
	}
}

// peersAsWritten makes a node of the first rack read its BGPConfiguration of an example. The node must
// have a peer, and no part may be without effect.
func peersAsWritten(t *testing.T, configs []bgpv1.BGPConfiguration) {
	t.Helper()
	node := peering.Node{
		Name:        "node-1",
		Labels:      map[string]string{"topology.kubernetes.io/zone": "r1", "example.com/asn": "65101"},
		Annotations: map[string]string{"example.com/bgp-address": "10.1.0.11"},
		InternalIPs: []netip.Addr{netip.MustParseAddr("192.168.1.11")},
		Gateways: map[addr.Family]peering.Gateway{
			addr.V4: {Address: netip.MustParseAddr("192.168.1.1")}, addr.V6: {Address: netip.MustParseAddr("fe80::1%eth0")},
		},
	}
	secrets := func(string, string) (string, error) { return "not-this-one", nil }
	egress := func(netip.Addr) (peering.Egress, bool) {
		return peering.Egress{Interface: "eth0", Addresses: []netip.Addr{node.InternalIPs[0], netip.MustParseAddr("2001:db8:1::11")}}, true
	}
	chosen := peering.Chosen(configs, node.Labels)
	if chosen == nil {
		t.Fatal("no BGPConfiguration is in effect on the node")
	}
	decision := peering.Decide(chosen.Spec, node, secrets, egress)
	if !decision.OK || len(decision.State.Peers) == 0 {
		t.Error("the node has no peer")
	}
	for _, p := range decision.Problems {
		t.Errorf("BGPConfiguration: %s", p)
	}
}

// examples returns the YAML examples of the documentation, by file and line.
func examples(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for page, text := range pages(t, "*.md", "../README.md") {
		_, blocks := split(text)
		for _, b := range blocks {
			if b.language == "yaml" {
				all[fmt.Sprintf("%s:%d", filepath.Base(page), b.line)] = b.code
			}
		}
	}
	return all
}
