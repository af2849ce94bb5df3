package peering_test

import (
	"fmt"
	"strings"
	"testing"

	"purelb.io/purelb/internal/bgp/peering"
)

const aliased = `communityAliases: {customer: "65000:100", blue: "64512:100:1"}, `

func TestAliasesStandForCommunities(t *testing.T) {
	c := named(t, "default", `{`+aliased+`global: {asn: 65000, applyPolicy: {exportPolicy: {policies: [p]}}},
		definedSets: [{type: community, name: s, list: [customer, "65000:.*", no-export]}, {type: large-community, name: s, list: [blue]}],
		policyDefinitions: [{name: p, statements: [{conditions: {communitySet: {name: s}, largeCommunitySet: {name: s}},
			actions: {community: {communities: [customer, no-export]}, largeCommunity: {communities: [blue]}}}]}],
		netlinkExport: {enabled: true, rules: [{name: r, communityList: [customer], largeCommunityList: [blue]}]}}`)
	d := on(c)
	if text := firstSet(d.Problems); text != "" {
		t.Fatal(text)
	}
	var got []string
	for _, s := range d.State.Sets {
		got = append(got, string(s.Kind)+" "+strings.Join(s.List, " "))
	}
	then := d.State.Export.Statements[len(d.State.Export.Statements)-1].Then
	got = append(got, strings.Join(then.Communities.List, " "), strings.Join(then.LargeCommunities.List, " "), d.Export[0].LargeCommunities[0])
	const want = "community 65000:100 65000:.* 65535:65281; large-community 64512:100:1; 65000:100 65535:65281; 64512:100:1; 64512:100:1"
	if text := strings.Join(got, "; "); text != want || d.Export[0].Communities[0] != 65000<<16|100 {
		t.Errorf("%s, %v; want %s", text, d.Export[0].Communities, want)
	}
	aliases := peering.AliasesOf(c.Spec)
	a, problems := peering.ParseAttributes(aliases, []string{"customer", "64512:1"}, []string{"blue"}, nil, nil)
	b, more := peering.AttributesOf(aliases, map[string]string{peering.AnnotationCommunities: "customer, 64512:1", peering.AnnotationLargeCommunities: "blue"})
	for _, x := range []peering.Attributes{a, b} {
		if got := attributes(x); got != "64512:1 65000:100 [64512:100:1]" {
			t.Errorf("the attributes are %q", got)
		}
	}
	if text := firstSet(problems) + firstSet(more); text != "" {
		t.Error(text)
	}
}

// Manifests without aliases may be older than aliases. A word in their sets is a name that GoBGP
// knows, or it matches nothing. The policies stay in use in both cases.
func TestWordsInSetsStayWithoutAliases(t *testing.T) {
	const spec = `global: {asn: 65000, applyPolicy: {exportPolicy: {policies: [p]}}}, neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 65001}}],
		definedSets: [{type: community, name: s, list: [planned-shut, Planned_Shut, gold]}, {type: large-community, name: s, list: [gold]}],
		policyDefinitions: [{name: p, statements: [{conditions: {communitySet: {name: s}, largeCommunitySet: {name: s}}, actions: {routeAction: reject}}]}]`
	d := on(named(t, "default", "{"+strings.ReplaceAll(spec, "\t", " ")+"}"))
	if !d.OK || len(d.State.Peers) != 1 {
		t.Fatalf("%d neighbors: %s", len(d.State.Peers), firstSet(d.Problems))
	}
	var got []string
	for _, s := range d.State.Sets {
		if s.Name == "s" {
			got = append(got, string(s.Kind)+" "+strings.Join(s.List, " "))
		}
	}
	if text := strings.Join(got, "; "); text != "community 65535:0 65535:0 gold; large-community gold" {
		t.Errorf("the sets are %s", text)
	}
	const unknown = ` is neither %s nor a name in spec.communityAliases of a BGPConfiguration of this node: correct it, or define it there; until then it matches nothing`
	want := `spec.definedSets[0].list[2]: "gold"` + fmt.Sprintf(unknown, "a community") + "\n" + `spec.definedSets[1].list[0]: "gold"` + fmt.Sprintf(unknown, "a large community")
	if text := firstSet(d.Problems); text != want {
		t.Errorf("the problems:\n got %s\nwant %s", text, want)
	}
}
