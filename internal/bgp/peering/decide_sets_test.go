package peering_test

import (
	"strings"
	"testing"
)

// A word in a set is a name that GoBGP knows, or it matches nothing. The policies stay in use in both cases.
func TestWordsInSetsMatchNothing(t *testing.T) {
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
	const want = `spec.definedSets[0].list[2]: "gold" is not a community: write two numbers from 0 to 65535, such as 64512:100, or a well-known name such as no-export; until then it matches nothing` + "\n" +
		`spec.definedSets[1].list[0]: "gold" is not a large community: write three numbers from 0 to 4294967295, such as 64512:100:1; until then it matches nothing`
	if text := firstSet(d.Problems); text != want {
		t.Errorf("the problems:\n got %s\nwant %s", text, want)
	}
}
