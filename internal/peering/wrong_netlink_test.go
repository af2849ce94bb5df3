package peering_test

import "testing"

func TestMistakesInImportsAndExportsAreReported(t *testing.T) {
	reportMistakes(t, []mistake{
		{
			"VRFs", `{vrfs: [{name: red, rd: '64512:1', netlinkImport: {enabled: true, interfaceList: [eth1]}, netlinkExport: {enabled: true, linuxVrf: red}}, {name: red}]}`,
			`NotSupported spec.vrfs: VRFs are not supported, so they are not in effect: remove them`,
		},
		{
			"an import that is not enabled", `{netlinkImport: {interfaceList: [kube-lb0]}}`,
			`Adjusted spec.netlinkImport: is not in effect, because enabled is not true: set it, or remove the rest`,
		},
		{
			"an import with a bad pattern", `{netlinkImport: {enabled: true, interfaceList: ['eth[', '']}}`,
			`ParseError spec.netlinkImport.interfaceList[0]: "eth[" is neither the name of an interface nor a pattern such as eth*, and left out
			 ParseError spec.netlinkImport.interfaceList[1]: "" is neither the name of an interface nor a pattern such as eth*, and left out`,
		},
		{
			"an import into a VRF", `{netlinkImport: {enabled: true, vrf: red, interfaceList: [kube-lb0]}}`,
			`NotSupported spec.netlinkImport.vrf: VRFs are not supported, so nothing is imported: remove it, and the addresses are announced to all neighbors`,
		},
		{
			"an export that is not enabled", `{netlinkExport: {rules: [{name: all}]}}`,
			`Adjusted spec.netlinkExport: is not in effect, because enabled is not true: set it, or remove the rest`,
		},
		{
			"an export without a rule", `{netlinkExport: {enabled: true}}`,
			`Adjusted spec.netlinkExport.rules: nothing is exported without a rule: add one`,
		},
		{
			"rules without a name and of one name", `{netlinkExport: {enabled: true, rules: [{name: ''}, {name: all}, {name: all}]}}`,
			`ParseError spec.netlinkExport.rules[0].name: the rule has no name, and is not in use: write one
			 Duplicate spec.netlinkExport.rules[2].name: an earlier rule has the name "all", so this one is not in use: write another`,
		},
		{
			"rules with a wrong table, a wrong metric and VRFs", `{netlinkExport: {enabled: true, rules: [{name: all, tableId: -1}, {name: more, metric: 4294967296}, {name: red, vrf: red}, {name: blue, vrf: blue, tableId: 7}]}}`,
			`ParseError spec.netlinkExport.rules[0].tableId: -1 is not the number of a routing table: write one from 0 (the main one) to 4294967295
			 ParseError spec.netlinkExport.rules[1].metric: 4294967296 is not a metric: write one from 1 to 4294967295
			 NotSupported spec.netlinkExport.rules[2].vrf: VRFs are not supported, so the rule is not in use: write the number of the table of the VRF device into tableId
			 NotSupported spec.netlinkExport.rules[3].vrf: VRFs are not supported, so only tableId counts: remove vrf`,
		},
		{
			"a rule with wrong communities", `{netlinkExport: {enabled: true, rules: [{name: all, communityList: ['70000:1'], largeCommunityList: ['1:2']}]}}`,
			`ParseError spec.netlinkExport.rules[0].communityList[0]: "70000:1" is not a community: write two numbers from 0 to 65535, such as 64512:100, or a well-known name such as no-export; the rule is not in use
			 ParseError spec.netlinkExport.rules[0].largeCommunityList[0]: "1:2" is not a large community: write three numbers from 0 to 4294967295, such as 64512:100:1; the rule is not in use`,
		},
		{
			"a protocol of the kernel", `{netlinkExport: {enabled: true, routeProtocol: 2, rules: [{name: all}]}}`,
			`ParseError spec.netlinkExport.routeProtocol: 2 is not a number to mark our routes with, so nothing is exported: write one from 5 to 255`,
		},
		{
			"an export that is too slow", `{netlinkExport: {enabled: true, dampeningInterval: 60001, rules: [{name: all}]}}`,
			`ParseError spec.netlinkExport.dampeningInterval: 60001 is not from 1 to 60000, so 100 is used`,
		},
	})
}
