package config_test

import (
	"testing"

	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/groups"
)

// pools is a range for the tables below.
const pools = `remote: {v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.0/24}}`

func TestBoundaries(t *testing.T) {
	const in = "Remote 192.0.2.0-192.0.2.255/24"
	check(t, ofGroups, []example{
		{"anybody", `a: {` + pools + `}`, `group a ` + in},
		{"namespaces", `a: {` + pools + `, namespaces: [z, x]}`, `group a ` + in + ` for z,x`},
		{"namespaces by label", `a: {` + pools + `, namespaceSelector: {matchLabels: {team: a}, matchExpressions: [{key: stage, operator: NotIn, values: [test]}]}}`,
			`group a ` + in + ` for "stage notin (test),team=a"`},
		{"all namespaces", `a: {` + pools + `, namespaceSelector: {}, namespaceDefault: true}`, `group a ` + in + ` for "" default`},
		{"Services by label", `a: {` + pools + `, serviceSelector: {matchExpressions: [{key: public, operator: Exists}]}}`, `group a ` + in + ` for Services "public"`},
		{"all Services", `a: {` + pools + `, serviceSelector: {}}`, `group a ` + in + ` for Services ""`},
		{"an order", `a: {` + pools + `, priority: 0}`, `group a ` + in + ` priority 0`},
		{"on request", `a: {` + pools + `, autoAssign: false}`, `group a ` + in + ` by name`},
		{"autoAssign true is the default", `a: {` + pools + `, autoAssign: true}`, `group a ` + in},
		{"an address for several namespaces", `a: {` + pools + `, shareAcrossNamespaces: true}`, `group a ` + in + ` shared across namespaces`},
		{"everything", `a: {` + pools + `, namespaces: [x], namespaceSelector: {matchLabels: {team: a}}, serviceSelector: {matchLabels: {tier: web}}, enforceNamespaces: true, namespaceDefault: true, priority: 7}`,
			`group a ` + in + ` for x for "team=a" for Services "tier=web" enforced default priority 7
			 fence for x for "team=a" for Services "tier=web" enforced default priority 7`},
		{"no Service, because of an unreadable selector", `a: {` + pools + `, namespaceSelector: {matchExpressions: [{key: team, operator: Is, values: [a]}]}}`,
			`Refused ParseError a: spec.namespaceSelector: "Is" is not a valid label selector operator: correct it, or remove it to choose without`},
		{"no Service, because of an impossible label value", `a: {` + pools + `, serviceSelector: {matchLabels: {tier: "a b"}}}`,
			`Refused ParseError a: spec.serviceSelector: values[0][tier]: Invalid value: "a b": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?'): correct it, or remove it to choose without`},
		{"enforceNamespaces without namespaces, which the schema refuses, is for nobody", `a: {` + pools + `, enforceNamespaces: true, namespaceDefault: true}`, `group a ` + in + ` enforced default
			 fence enforced default`},
		{"only on request", `a: {` + pools + `, namespaces: [x], namespaceDefault: true, priority: 7, autoAssign: false}`,
			`group a ` + in + ` for x default priority 7 by name
			 Warning Adjusted a: spec.namespaceDefault: is not in effect, because autoAssign is false: Services get addresses from this group only when they ask for it; remove one of them
			 Warning Adjusted a: spec.priority: is not in effect, because autoAssign is false: Services get addresses from this group only when they ask for it; remove one of them`},
	})
}

// TestMistakeDoesNotOpenTheBoundary checks that a mistake elsewhere in the group leaves its
// boundary closed.
func TestMistakeDoesNotOpenTheBoundary(t *testing.T) {
	const fence = `, namespaces: [x], namespaceSelector: {matchLabels: {team: a}}, enforceNamespaces: true}`
	const badFence = `, namespaces: [x], namespaceSelector: {matchExpressions: [{key: a b, operator: Exists}]}, enforceNamespaces: true}`
	const whole = `fence for x for "team=a" enforced`
	tests := []struct{ name, groups, want string }{
		{"a range", `a: {remote: {v4pool: {subnet: 192.0.2.0/24, pool: oops}}` + fence, whole},
		{"no kind", `a: {netbox: {url: "http://n"}, external: {provider: p, announce: local}` + fence, whole},
		{"a parent of NetBox", `a: {netbox: {url: "http://n", parents: [{prefix: {cidr: oops}}]}` + fence, whole},
		{"an overlap", "b: {" + pools + "}\na: {" + pools + fence, whole},
		{"a bad selector of Services", `a: {` + pools + `, serviceSelector: {matchLabels: {"": x}}` + fence, whole},
		{"a bad selector of namespaces", `a: {` + pools + badFence, `fence for x enforced`},
		{"a group outside the install namespace has none", `elsewhere/a: {` + pools + fence, ""},
		{"a valid group without enforcement", `a: {` + pools + `, namespaces: [x]}`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := config.For(serviceGroups(t, tt.groups), nil, home)
			same(t, config.Config{Groups: groups.Groups{Enforced: c.Groups.Enforced}}, tt.want)
			if g, ok := c.Groups.Group("a"); ok && g.Enforce {
				t.Errorf("the group is in use: %v", g)
			}
		})
	}
}

func TestBoundariesAreInOrderOfAge(t *testing.T) {
	all := serviceGroups(t, `
		c: {remote: {v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.0/25}}, namespaces: [c], enforceNamespaces: true}
		b: {remote: {}, namespaces: [b], enforceNamespaces: true}
		a: {remote: {v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.128/25}}, namespaces: [a], enforceNamespaces: true}`)
	want := config.For(all, nil, home)
	same(t, config.Config{Groups: groups.Groups{Enforced: want.Groups.Enforced}}, "fence for c enforced\nfence for b enforced\nfence for a enforced")
	same(t, config.For(judged(all), nil, home), print(want))
}
