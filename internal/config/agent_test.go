package config_test

import (
	"testing"
)

const (
	localDefaults = `(1m0s/1m0s no prefix route)`
	dummyDefaults = `(0s/0s prefix route)`
	garpDefaults  = `garp 100ms+3x500ms verified`
	defaults      = localDefaults + ` ` + dummyDefaults + ` ` + garpDefaults
)

func TestAgentsOfEveryGeneration(t *testing.T) {
	check(t, ofAgents, []example{
		{"nothing set", `a: {local: {}}`, `agent a "" local default [] dummy kube-lb0 ` + defaults},
		{"v1 as installed", `a: {local: {localint: default, extlbint: kube-lb0, sendgarp: false}}`,
			`agent a "" local default [] dummy kube-lb0 ` + localDefaults + ` ` + dummyDefaults},
		{"v2 as installed", `a: {local: {localInterface: default, dummyInterface: kube-lb0}}`, `agent a "" local default [] dummy kube-lb0 ` + defaults},
		{"names of v1", `a: {local: {localint: eth1, extlbint: lb1, sendgarp: true}}`, `agent a "" local ^(?:eth1)$ [] dummy lb1 ` + defaults},
		{"names of v2", `a: {local: {localInterface: "en(p3|p4)s0", dummyInterface: lb2, interfaces: [eth0.100, br0, eth0.100]}}`, `agent a "" local ^(?:en(p[34])s0)$ [eth0.100 br0] dummy lb2 ` + defaults},
		{"all", `a: {local: {localInterface: all}}`, `agent a "" local all [] dummy kube-lb0 ` + defaults},
		{"all, by the name of v1", `a: {local: {localint: all, interfaces: [br0]}}`, `agent a "" local all [br0] dummy kube-lb0 ` + defaults},
		{"both names, one meaning", `a: {local: {localInterface: eth1, localint: eth1, dummyInterface: lb, extlbint: lb}}`, `agent a "" local ^(?:eth1)$ [] dummy lb ` + defaults},
		{"further networks", `a: {local: {networks: [203.0.113.0/28, " 2001:db8:7::/64", 203.0.113.0/28, 198.51.100.7/32]}}`,
			`agent a "" local default [] dummy kube-lb0 networks [203.0.113.0/28 2001:db8:7::/64 198.51.100.7/32] ` + defaults},
		{"half a schedule", `a: {local: {garpConfig: {count: 5, interval: 1.5s}}}`, `agent a "" local default [] dummy kube-lb0 ` + localDefaults + ` ` + dummyDefaults + ` garp 100ms+5x1.5s verified`},
		{"a whole schedule", `a: {local: {garpConfig: {enabled: true, initialDelay: 0s, count: 1, interval: 2m, verifyBeforeSend: false}}}`,
			`agent a "" local default [] dummy kube-lb0 ` + localDefaults + ` ` + dummyDefaults + ` garp 0s+1x2m0s`},
		{"no announcements", `a: {local: {garpConfig: {enabled: false}}}`, `agent a "" local default [] dummy kube-lb0 ` + localDefaults + ` ` + dummyDefaults},
		{"lifetimes of the reference implementation", `a: {local: {addressConfig: {localInterface: {validLifetime: 300}, dummyInterface: {noPrefixRoute: true}}}}`,
			`agent a "" local default [] dummy kube-lb0 (5m0s/5m0s no prefix route) (0s/0s no prefix route) ` + garpDefaults},
		{"all lifetimes written", `a: {local: {addressConfig: {localInterface: {validLifetime: 0, noPrefixRoute: false}, dummyInterface: {validLifetime: 120, preferredLifetime: 0}}}}`,
			`agent a "" local default [] dummy kube-lb0 (0s/0s prefix route) (2m0s/0s prefix route) ` + garpDefaults},
		{"only a preferred lifetime", `a: {local: {addressConfig: {localInterface: {preferredLifetime: 30}}}}`,
			`agent a "" local default [] dummy kube-lb0 (1m0s/30s no prefix route) ` + dummyDefaults + ` ` + garpDefaults},
		{"agents with a node selector come first", `a: {local: {}}
			 b: {local: {}, nodeSelector: {}}
			 d: {local: {}, nodeSelector: {matchLabels: {zone: a}}}
			 c: {local: {}, nodeSelector: {matchExpressions: [{key: rack, operator: Exists}]}}`,
			`agent c "rack" local default [] dummy kube-lb0 ` + defaults + `
			 agent d "zone=a" local default [] dummy kube-lb0 ` + defaults + `
			 agent a "" local default [] dummy kube-lb0 ` + defaults + `
			 agent b "" local default [] dummy kube-lb0 ` + defaults},
	})
}

func TestInvalidAgents(t *testing.T) {
	check(t, ofAgents, []example{
		{"no local", `a: {}`,
			`agent a "" local default [] dummy kube-lb0 implied (1m0s/1m0s no prefix route) (0s/0s prefix route) garp 100ms+3x500ms verified
			 Warning Adjusted a: spec.local: is missing, so this LBNodeAgent asks for nothing: nodes for which there is no other use the defaults, as with local: {}`},
		{"no local, with another agent that has it", `a: {nodeSelector: {matchLabels: {zone: a}}}
			 b: {local: {localInterface: eth1}}`,
			`agent b "" local ^(?:eth1)$ [] dummy kube-lb0 (1m0s/1m0s no prefix route) (0s/0s prefix route) garp 100ms+3x500ms verified
			 agent a "zone=a" local default [] dummy kube-lb0 implied (1m0s/1m0s no prefix route) (0s/0s prefix route) garp 100ms+3x500ms verified
			 Warning Adjusted a: spec.local: is missing, so this LBNodeAgent asks for nothing: nodes for which there is no other use the defaults, as with local: {}`},
		{"a malformed selector", `a: {local: {}, nodeSelector: {matchExpressions: [{key: zone, operator: Is, values: [a]}]}}`,
			`Refused ParseError a: spec.nodeSelector: "Is" is not a valid label selector operator: correct it, or remove it to select every node`},
		{"a malformed label", `a: {local: {}, nodeSelector: {matchLabels: {"not a label": x}}}`,
			`Refused ParseError a: spec.nodeSelector: key: Invalid value: "not a label": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]'): correct it, or remove it to select every node`},
		{"a malformed expression", `a: {local: {localInterface: "eth(0"}}`,
			`broken a ""
			 Refused ParseError a: spec.local.localInterface: "eth(0" is not a regular expression: missing closing ); write the name of an interface, an expression in the syntax of Go such as eth[0-9]+, "default" or "all"`},
		{"a malformed expression in v1", `a: {local: {localint: "*"}}`,
			`broken a ""
			 Refused ParseError a: spec.local.localint: "*" is not a regular expression: missing argument to repetition operator; write the name of an interface, an expression in the syntax of Go such as eth[0-9]+, "default" or "all"`},
		{"unbalanced parentheses that the added ones would complete", `a: {local: {localInterface: "eth0)(eth1"}}`,
			`broken a ""
			 Refused ParseError a: spec.local.localInterface: "eth0)(eth1" is not a regular expression: unexpected ); write the name of an interface, an expression in the syntax of Go such as eth[0-9]+, "default" or "all"`},
		{"an expression that is too expensive", `a: {local: {localInterface: "((a{100}){100}){100}"}}`,
			`broken a ""
			 Refused ParseError a: spec.local.localInterface: "((a{100}){100}){100}" is not a regular expression: invalid repeat count; write the name of an interface, an expression in the syntax of Go such as eth[0-9]+, "default" or "all"`},
		{"an impossible dummy interface", `a: {local: {dummyInterface: "kube lb0"}}`,
			`broken a ""
			 Refused ParseError a: spec.local.dummyInterface: "kube lb0" cannot be the name of an interface: it has 1 to 15 characters, without spaces, '/' and ':'`},
		{"an impossible dummy interface in v1", `a: {local: {extlbint: "a-name-too-long-for-linux"}}`,
			`broken a ""
			 Refused ParseError a: spec.local.extlbint: "a-name-too-long-for-linux" cannot be the name of an interface: it has 1 to 15 characters, without spaces, '/' and ':'`},
		{"two names, two meanings", `a: {local: {localInterface: eth1, localint: eth0, dummyInterface: lb1, extlbint: lb0}}`,
			`agent a "" local ^(?:eth1)$ [] dummy lb1 (1m0s/1m0s no prefix route) (0s/0s prefix route) garp 100ms+3x500ms verified
			 Warning Adjusted a: spec.local.localint: "eth0" is not in effect, because localInterface is set to "eth1": remove one of them
			 Warning Adjusted a: spec.local.extlbint: "lb0" is not in effect, because dummyInterface is set to "lb1": remove one of them`},
		{"a broken name is not in effect beside a good one", `a: {local: {localInterface: eth1, localint: "("}}`,
			`agent a "" local ^(?:eth1)$ [] dummy kube-lb0 (1m0s/1m0s no prefix route) (0s/0s prefix route) garp 100ms+3x500ms verified
			 Warning Adjusted a: spec.local.localint: "(" is not in effect, because localInterface is set to "eth1": remove one of them`},
		{"the dummy interface among the others", `a: {local: {interfaces: [eth0, kube-lb0]}}`,
			`agent a "" local default [eth0] dummy kube-lb0 (1m0s/1m0s no prefix route) (0s/0s prefix route) garp 100ms+3x500ms verified`},
		{"what is no network of a segment", `a: {local: {networks: ["203.0.113.0", 203.0.113.5/28, 0.0.0.0/0, "fe80::/64", 224.0.0.0/4, "2001:db8::/64"]}}`,
			`agent a "" local default [] dummy kube-lb0 networks [203.0.113.0/28 2001:db8::/64] (1m0s/1m0s no prefix route) (0s/0s prefix route) garp 100ms+3x500ms verified
			 Warning Adjusted a: spec.local.networks[0]: "203.0.113.0": the mask is missing; for this one address write 203.0.113.0/32; until then it is left out
			 Warning Adjusted a: spec.local.networks[1]: 203.0.113.5/28 counts as the network 203.0.113.0/28: write that
			 Warning Adjusted a: spec.local.networks[2]: 0.0.0.0/0 is left out, because machines on a segment cannot have its addresses: write a network that the router has there, such as 203.0.113.0/28
			 Warning Adjusted a: spec.local.networks[3]: fe80::/64 is left out, because machines on a segment cannot have its addresses: write a network that the router has there, such as 203.0.113.0/28
			 Warning Adjusted a: spec.local.networks[4]: 224.0.0.0/4 is left out, because machines on a segment cannot have its addresses: write a network that the router has there, such as 203.0.113.0/28`},
		{"GARP off and on", `a: {local: {sendgarp: false, garpConfig: {count: 2}}}`,
			`agent a "" local default [] dummy kube-lb0 (1m0s/1m0s no prefix route) (0s/0s prefix route) garp 100ms+2x500ms verified
			 Warning Adjusted a: spec.local.sendgarp: false is not in effect, because garpConfig is set and says true: remove sendgarp`},
		{"GARP on and off", `a: {local: {sendgarp: true, garpConfig: {enabled: false}}}`,
			`agent a "" local default [] dummy kube-lb0 (1m0s/1m0s no prefix route) (0s/0s prefix route)
			 Warning Adjusted a: spec.local.sendgarp: true is not in effect, because garpConfig is set and says false: remove sendgarp`},
		{"values that are no durations", `a: {local: {garpConfig: {initialDelay: soon, interval: "-1s"}}}`,
			`agent a "" local default [] dummy kube-lb0 (1m0s/1m0s no prefix route) (0s/0s prefix route) garp 100ms+3x500ms verified`},
		{"a duration that is too long", `a: {local: {garpConfig: {interval: 99999999999h}}}`,
			`agent a "" local default [] dummy kube-lb0 (1m0s/1m0s no prefix route) (0s/0s prefix route) garp 100ms+3x500ms verified`},
		{"no packets", `a: {local: {garpConfig: {count: 0}}}`,
			`agent a "" local default [] dummy kube-lb0 (1m0s/1m0s no prefix route) (0s/0s prefix route) garp 100ms+1x500ms verified`},
		{"too many packets", `a: {local: {garpConfig: {count: 11}}}`,
			`agent a "" local default [] dummy kube-lb0 (1m0s/1m0s no prefix route) (0s/0s prefix route) garp 100ms+10x500ms verified`},
		{"a short lifetime", `a: {local: {addressConfig: {localInterface: {validLifetime: 59}}}}`,
			`agent a "" local default [] dummy kube-lb0 (1m0s/1m0s no prefix route) (0s/0s prefix route) garp 100ms+3x500ms verified
			 Warning Adjusted a: spec.local.addressConfig.localInterface.validLifetime: 59 is less than the shortest lifetime and counts as 60: write 0 for ever, otherwise 60 or more`},
		{"a lifetime that is too short, of remote addresses", `a: {local: {addressConfig: {dummyInterface: {validLifetime: 1, preferredLifetime: 1}}}}`,
			`agent a "" local default [] dummy kube-lb0 (1m0s/1m0s no prefix route) (1m0s/1s prefix route) garp 100ms+3x500ms verified
			 Warning Adjusted a: spec.local.addressConfig.dummyInterface.validLifetime: 1 is less than the shortest lifetime and counts as 60: write 0 for ever, otherwise 60 or more`},
		{"a preferred lifetime above the valid one", `a: {local: {addressConfig: {localInterface: {preferredLifetime: 90}}}}`,
			`agent a "" local default [] dummy kube-lb0 (1m0s/1m0s no prefix route) (0s/0s prefix route) garp 100ms+3x500ms verified
			 Warning Adjusted a: spec.local.addressConfig.localInterface.preferredLifetime: 90 counts as 60, which is validLifetime: write a number from 0 to 60`},
		{"a finite preferred lifetime of permanent addresses", `a: {local: {addressConfig: {dummyInterface: {preferredLifetime: 90}}}}`,
			`agent a "" local default [] dummy kube-lb0 (1m0s/1m0s no prefix route) (0s/0s prefix route) garp 100ms+3x500ms verified
			 Warning Adjusted a: spec.local.addressConfig.dummyInterface.preferredLifetime: 90 is not in effect, because validLifetime is 0, which is for ever: remove it, or set validLifetime`},
		{"negative lifetimes", `a: {local: {addressConfig: {localInterface: {validLifetime: -5, preferredLifetime: -1}}}}`,
			`agent a "" local default [] dummy kube-lb0 (1m0s/1m0s no prefix route) (0s/0s prefix route) garp 100ms+3x500ms verified
			 Warning Adjusted a: spec.local.addressConfig.localInterface.validLifetime: -5 is less than the shortest lifetime and counts as 60: write 0 for ever, otherwise 60 or more
			 Warning Adjusted a: spec.local.addressConfig.localInterface.preferredLifetime: -1 counts as 60, which is validLifetime: write a number from 0 to 60`},
		{"in another namespace", `default/a: {local: {}}`,
			`Refused OutOfScope a: metadata.namespace: ignored, so no node uses it: namespace "default" is not the PureLB install namespace, and not in configNamespaces of the chart. Move it to "purelb-system": kubectl get lbnodeagent a -n default -o yaml | sed -e '/^  uid:/d' -e '/^  resourceVersion:/d' -e 's/^  namespace: .*/  namespace: purelb-system/' | kubectl apply -f - && kubectl delete lbnodeagent a -n default`},
	})
}
