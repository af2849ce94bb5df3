package peering_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"purelb.io/purelb/internal/bgp/peering"
)

func TestRoutesToTheAddressesOfTheClusterAreNotLearned(t *testing.T) {
	own := node
	own.Own = []peering.PrefixRange{
		{Prefix: netip.MustParsePrefix("10.255.0.0/24"), Min: 24, Max: 32}, {Prefix: netip.MustParsePrefix("2001:db8:f::/64"), Min: 64, Max: 128},
	}
	const policy = `applyPolicy: {importPolicy: {policies: [all]}}`
	spec := config(t, `{global: {asn: 64512, `+policy+`}, neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64512}, `+policy+`}],
		policyDefinitions: [{name: all, statements: [{actions: {routeAction: accept}}]}]}`)
	got := print(peering.Decide(spec, own, secrets, egress))
	for _, want := range []string{
		"set prefix purelb:pools IPv4 [][{10.255.0.0/24 24 32}]\n", "set prefix purelb:pools IPv6 [][{2001:db8:f::/64 64 128}]\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %q in\n%s", want, got)
		}
	}
	first := got[strings.Index(got, "import [purelb:p"):]
	if want := "import [purelb:pools IPv4] prefixes any of purelb:pools IPv4 -> reject\nimport [purelb:pools IPv6] prefixes any of purelb:pools IPv6 -> reject\n"; !strings.HasPrefix(first, want) {
		t.Errorf("the import chain begins with\n%s\nwant these rejections before all policies:\n%s", first, want)
	}
}

func TestPoliciesKeepTheAttributesOfADrainedNode(t *testing.T) {
	spec := config(t, `{global: {asn: 64512, applyPolicy: {exportPolicy: {policies: [p]}}}, policyDefinitions: [{name: p, statements: [
		{name: replace, actions: {community: {type: replace, communities: ['64512:1']}, localPref: 200}},
		{name: remove, actions: {community: {type: remove, communities: ['64512:1', graceful-shutdown]}}},
		{name: all, actions: {community: {type: remove, communities: [graceful-shutdown]}, routeAction: accept}},
		{name: add, actions: {community: {type: add, communities: ['35:0']}}}]}]}`)
	here := node
	for _, draining := range []bool{false, true} {
		here.Draining = draining
		var got strings.Builder
		for line := range strings.Lines(print(peering.Decide(spec, here, secrets, egress))) {
			if strings.HasPrefix(line, "export [export p/") {
				got.WriteString(line)
			}
		}
		want := map[bool]string{
			false: "export [export p/replace] -> replace [64512:1] pref=200\nexport [export p/remove] -> remove [64512:1 65535:0]\n" +
				"export [export p/all] -> remove [65535:0] accept\nexport [export p/add] -> add [35:0]\n",
			true: "export [export p/replace] -> replace [64512:1 65535:0]\nexport [export p/remove] -> remove [64512:1]\n" +
				"export [export p/all] -> accept\nexport [export p/add] -> add [35:0]\n",
		}[draining]
		if diff := cmp.Diff(want, got.String()); diff != "" {
			t.Errorf("draining %v: %s", draining, diff)
		}
	}
}
