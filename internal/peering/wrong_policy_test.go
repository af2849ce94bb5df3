package peering_test

import (
	"strings"
	"testing"
)

func TestMistakesInPoliciesAreReported(t *testing.T) {
	reportMistakes(t, []mistake{
		{
			"a missing policy", `{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}, applyPolicy: {exportPolicy: {policies: [none]}}}]}`,
			`NotFound spec.neighbors[0].applyPolicy.exportPolicy.policies[0]: there is no policy "none" in spec.policyDefinitions
			 without 192.0.2.1`,
		},
		{
			"a policy twice", `{policyDefinitions: [{name: one}], neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}, applyPolicy: {importPolicy: {policies: [one, one]}}}]}`,
			`Duplicate spec.neighbors[0].applyPolicy.importPolicy.policies[1]: "one" is there twice: remove one`,
		},
		{
			"a policy that refers to a missing set", `{policyDefinitions: [{name: out, statements: [{conditions: {prefixSet: {name: ours}}}]}], neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}, applyPolicy: {exportPolicy: {policies: [out]}}}]}`,
			`NotFound spec.policyDefinitions[0].statements[0].conditions.prefixSet.name: there is no prefix set "ours" in spec.definedSets; the policy is not in use
			 NotFound spec.neighbors[0].applyPolicy.exportPolicy.policies[0]: the policy "out" has a mistake (see spec.policyDefinitions[0])
			 without 192.0.2.1`,
		},
		{
			"a policy that refers to a set of another kind", `{definedSets: [{type: neighbor, name: ours, list: [192.0.2.1]}], policyDefinitions: [{name: out, statements: [{conditions: {prefixSet: {name: ours}}}]}]}`,
			`NotFound spec.policyDefinitions[0].statements[0].conditions.prefixSet.name: there is no prefix set "ours" in spec.definedSets; the policy is not in use`,
		},
		{
			"a policy that refers to a set with a mistake", `{definedSets: [{type: community, name: ours, list: ['(']}], policyDefinitions: [{name: out, statements: [{conditions: {communitySet: {name: ours}}}]}]}`,
			`ParseError spec.definedSets[0].list[0]: "(" is not a regular expression; the set is not in use
			 NotFound spec.policyDefinitions[0].statements[0].conditions.communitySet.name: the community set "ours" has a mistake (see spec.definedSets[0]); the policy is not in use`,
		},
		{
			"a policy without a name", `{policyDefinitions: [{statements: []}]}`,
			`ParseError spec.policyDefinitions[0].name: "" cannot be a name: write one that is not empty and does not begin with purelb:`,
		},
		{
			"a policy with a reserved name", `{policyDefinitions: [{name: 'purelb:transit'}]}`,
			`ParseError spec.policyDefinitions[0].name: "purelb:transit" cannot be a name: write one that is not empty and does not begin with purelb:`,
		},
		{
			"two policies of one name", `{policyDefinitions: [{name: out}, {name: out}]}`,
			`Duplicate spec.policyDefinitions[1].name: an earlier policy has the name "out", so this one is not in use: write another`,
		},
		{
			"two statements of one name", `{policyDefinitions: [{name: out, statements: [{name: a}, {name: a}]}]}`,
			`Duplicate spec.policyDefinitions[0].statements[1].name: an earlier statement has the name "a": write another; the policy is not in use`,
		},
		{
			"an unknown match", `{definedSets: [{type: as-path, name: ours, list: [_64513_]}], policyDefinitions: [{name: out, statements: [{conditions: {asPathSet: {name: ours, match: some}}}]}]}`,
			`ParseError spec.policyDefinitions[0].statements[0].conditions.asPathSet.match: "some" is not a way to match: write any, all or invert; the policy is not in use`,
		},
		{
			"a match of all neighbors of a set", `{definedSets: [{type: neighbor, name: ours, list: [192.0.2.1]}], policyDefinitions: [{name: out, statements: [{conditions: {neighborSet: {name: ours, match: all}}}]}]}`,
			`ParseError spec.policyDefinitions[0].statements[0].conditions.neighborSet.match: a route cannot match all of a neighbor set: write any or invert; the policy is not in use`,
		},
		{
			"more communities than a route can have",
			`{policyDefinitions: [{name: out, statements: [{actions: {community: {communities: [` + strings.Repeat("'64512:1',", 65) + `]}}}, {actions: {community: {type: remove, communities: [` +
				strings.Repeat("'64512:1',", 65) + `]}}}]}]}`,
			`ParseError spec.policyDefinitions[0].statements[0].actions.community.communities: there are 65 elements, and a statement can have 64: remove some; the policy is not in use`,
		},
		{
			"policies that add too much together", `{policyDefinitions: [{name: large, statements: [{actions: {largeCommunity: {communities: [` + strings.Repeat("'64512:0:1',", 64) +
				`]}}}]}, {name: more, statements: [{actions: {largeCommunity: {communities: [` + strings.Repeat("'64512:0:2',", 50) + `]}}}]}, {name: path, statements: [
				{actions: {asPrepend: {repeat: 255}, routeAction: reject}}, {actions: {asPrepend: {repeat: 9}, routeAction: accept}}, {actions: {asPrepend: {repeat: 8}}}]},
				{name: less, statements: [{actions: {asPrepend: {repeat: 8}, routeAction: accept}}, {actions: {asPrepend: {repeat: 8}}}]}],
				neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}, applyPolicy: {exportPolicy: {policies: [large, more, path]}}},
				{config: {neighborAddress: 192.0.2.2, peerAsn: 64513}, applyPolicy: {exportPolicy: {policies: [large, more, less]}}}]}`,
			`ParseError spec.neighbors[0].applyPolicy.exportPolicy.policies: the policies can add 1404 bytes to a route, and 1400 are possible: add fewer communities, or prepend fewer ASes
			 without 192.0.2.1`,
		},
		{
			"RPKI", `{policyDefinitions: [{name: out, statements: [{conditions: {rpkiResult: invalid}, actions: {routeAction: reject}}]}]}`,
			`NotSupported spec.policyDefinitions[0].statements[0].conditions.rpkiResult: there is no RPKI validator to ask, so this never holds: remove it; the policy is not in use`,
		},
		{
			"an unknown route action", `{policyDefinitions: [{name: out, statements: [{actions: {routeAction: drop}}]}]}`,
			`ParseError spec.policyDefinitions[0].statements[0].actions.routeAction: "drop" is neither accept nor reject; the policy is not in use`,
		},
		{
			"wrong communities", `{policyDefinitions: [{name: out, statements: [{actions: {routeAction: accept, community: {type: add, communities: ['64512:100', '64512:65536', no-exports]}}}]}]}`,
			`ParseError spec.policyDefinitions[0].statements[0].actions.community.communities[1]: "64512:65536" is not a community: write two numbers from 0 to 65535, such as 64512:100, or a well-known name such as no-export; the policy is not in use
			 ParseError spec.policyDefinitions[0].statements[0].actions.community.communities[2]: "no-exports" is neither a community nor a name in spec.communityAliases of a BGPConfiguration of this node: correct it, or define it there; the policy is not in use`,
		},
		{
			"wrong large communities", `{policyDefinitions: [{name: out, statements: [{actions: {routeAction: accept, largeCommunity: {communities: ['1:2', '1:2:4294967296']}}}]}]}`,
			`ParseError spec.policyDefinitions[0].statements[0].actions.largeCommunity.communities[0]: "1:2" is not a large community: write three numbers from 0 to 4294967295, such as 64512:100:1; the policy is not in use
			 ParseError spec.policyDefinitions[0].statements[0].actions.largeCommunity.communities[1]: "1:2:4294967296" is not a large community: write three numbers from 0 to 4294967295, such as 64512:100:1; the policy is not in use`,
		},
		{
			"no communities", `{policyDefinitions: [{name: out, statements: [{actions: {routeAction: accept, community: {type: remove}}}]}]}`,
			`ParseError spec.policyDefinitions[0].statements[0].actions.community.communities: there is nothing to remove: write communities; the policy is not in use`,
		},
		{
			"an unknown change of communities", `{policyDefinitions: [{name: out, statements: [{actions: {routeAction: accept, community: {type: set, communities: ['1:2']}}}]}]}`,
			`ParseError spec.policyDefinitions[0].statements[0].actions.community.type: "set" is none of add, remove and replace; the policy is not in use`,
		},
		{
			"a wrong MED", `{policyDefinitions: [{name: out, statements: [{actions: {med: {type: replace, value: -1}}}, {actions: {med: {type: igp, value: 1}}}]}]}`,
			`ParseError spec.policyDefinitions[0].statements[0].actions.med.value: -1 is not a MED: write a number from 0 to 4294967295; the policy is not in use
			 ParseError spec.policyDefinitions[0].statements[1].actions.med.type: "igp" is neither mod nor replace; the policy is not in use`,
		},
		{
			"a local preference of 0, which older manifests have", `{policyDefinitions: [{name: out, statements: [{actions: {localPref: 0}}]}], neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}, applyPolicy: {exportPolicy: {policies: [out]}}}]}`,
			`Adjusted spec.policyDefinitions[0].statements[0].actions.localPref: 0 leaves the local preference of the route as it is: remove it, or write a number from 1 to 4294967295`,
		},
		{
			"a change of the MED by nothing", `{policyDefinitions: [{name: out, statements: [{actions: {med: {type: mod}}}]}]}`,
			`Adjusted spec.policyDefinitions[0].statements[0].actions.med.value: 0 leaves the MED of the route as it is: remove it, or write another number`,
		},
		{
			"a local preference that is too large", `{policyDefinitions: [{name: out, statements: [{actions: {localPref: 4294967296}}]}]}`,
			`ParseError spec.policyDefinitions[0].statements[0].actions.localPref: 4294967296 cannot be set as a local preference: write a number from 1 to 4294967295; the policy is not in use`,
		},
		{
			"wrong AS path prepends", `{policyDefinitions: [{name: out, statements: [{actions: {asPrepend: {asn: 23456, repeat: 1}}}, {actions: {asPrepend: {repeat: 256}}}]}]}`,
			`ParseError spec.policyDefinitions[0].statements[0].actions.asPrepend.asn: 23456 is not the number of an autonomous system: write one from 1 to 4294967295, but not 23456; the policy is not in use
			 ParseError spec.policyDefinitions[0].statements[1].actions.asPrepend.repeat: 256 is not from 1 to 255; the policy is not in use`,
		},
		{
			"a set without a name", `{definedSets: [{type: neighbor, name: '', list: [192.0.2.1]}]}`,
			`ParseError spec.definedSets[0].name: "" cannot be a name: write one that is not empty and does not begin with purelb:`,
		},
		{
			"an unknown kind of set", `{definedSets: [{type: ext-community, name: ours, list: ['rt:1:2']}]}`,
			`NotSupported spec.definedSets[0].type: "ext-community" is not a kind of set: write prefix, neighbor, as-path, community or large-community`,
		},
		{
			"two sets of one name", `{definedSets: [{type: neighbor, name: ours, list: [192.0.2.1]}, {type: neighbor, name: ours, list: [192.0.2.2]}]}`,
			`Duplicate spec.definedSets[1].name: an earlier neighbor set has the name "ours", so this one is not in use: write another`,
		},
		{
			"an empty set", `{definedSets: [{type: community, name: ours}]}`,
			`ParseError spec.definedSets[0].list: the set is empty, and not in use: write list`,
		},
		{
			"an empty set of prefixes", `{definedSets: [{type: prefix, name: ours}]}`,
			`ParseError spec.definedSets[0].prefixes: the set is empty, and not in use: write prefixes`,
		},
		{
			"a set of prefixes with a list", `{definedSets: [{type: prefix, name: ours, list: [192.0.2.0/24], prefixes: [{ipPrefix: 192.0.2.0/24}]}]}`,
			`ParseError spec.definedSets[0].list: sets of type prefix have no list: write prefixes; the set is not in use`,
		},
		{
			"a set of neighbors with prefixes", `{definedSets: [{type: neighbor, name: ours, list: [192.0.2.1], prefixes: [{ipPrefix: 192.0.2.0/24}]}]}`,
			`ParseError spec.definedSets[0].prefixes: only sets of type prefix have prefixes: write list, or change the type; the set is not in use`,
		},
		{
			"a set of prefixes with an address", `{definedSets: [{type: prefix, name: ours, prefixes: [{ipPrefix: 192.0.2.0}]}]}`,
			`ParseError spec.definedSets[0].prefixes[0].ipPrefix: "192.0.2.0" is not a network: write one such as 192.0.2.0/24; the set is not in use`,
		},
		{
			"a set of prefixes of two families", `{definedSets: [{type: prefix, name: ours, prefixes: [{ipPrefix: 192.0.2.0/24}, {ipPrefix: '2001:db8::/32'}]}]}`,
			`Conflict spec.definedSets[0].prefixes[1].ipPrefix: 2001:db8::/32 is IPv6 and the others of the set are IPv4, so it is not in use: make two sets of them`,
		},
		{
			"wrong mask lengths", `{definedSets: [{type: prefix, name: ours, prefixes: [{ipPrefix: 192.0.2.0/24, maskLengthMin: 30, maskLengthMax: 28}, {ipPrefix: 192.0.2.0/24, maskLengthMin: 16}]}]}`,
			`ParseError spec.definedSets[0].prefixes[0].maskLengthMax: 28 is not the length of a mask in 192.0.2.0/24: write a number from 30 to 32; the set is not in use
			 ParseError spec.definedSets[0].prefixes[1].maskLengthMin: 16 is not the length of a mask in 192.0.2.0/24: write a number from 24 to 32; the set is not in use`,
		},
		{
			"a set of neighbors with a host name", `{definedSets: [{type: neighbor, name: ours, list: [router]}]}`,
			`ParseError spec.definedSets[0].list[0]: "router" is neither an IP address nor a network; the set is not in use`,
		},
		{
			"a wrong regular expression", `{definedSets: [{type: as-path, name: ours, list: ['(64513', '']}]}`,
			`ParseError spec.definedSets[0].list[0]: "(64513" is not a regular expression; the set is not in use
			 ParseError spec.definedSets[0].list[1]: "" would match everything; the set is not in use`,
		},
	})
}
