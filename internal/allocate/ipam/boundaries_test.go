package ipam_test

import (
	"testing"

	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/groups"
)

func TestEnforcedBoundariesHoldBothWays(t *testing.T) {
	red := only(made("red", 1, namespaces("a"), enforced), made("pink", 2, namespaces("a", "c")), made("default", 3), made("open", 4, priority(1)))
	check(t, []example{
		{name: "a Service inside gets an address inside", request: web("4", in("a"), of("red")), change: red, want: "10.0.1.1 from red (remote)"},
		{name: "a Service outside names the group", request: web("4", in("b"), of("red")), change: red, want: `
false NamespaceDenied: namespace denied: ServiceGroup "red" is for its own namespaces only (enforceNamespaces), and "b" is none of them; use another, or add the namespace to that group
refused: pool red, namespace_denied`},
		{name: "a Service outside asks for an address", request: web("4", in("b"), asking("10.0.1.2")), change: red, want: `
false NamespaceDenied: 10.0.1.2 was asked for: namespace denied: ServiceGroup "red" is for its own namespaces only (enforceNamespaces), and "b" is none of them; use another, or add the namespace to that group
refused: pool red, namespace_denied`},
		{name: "a Service inside names a group outside", request: web("4", in("a"), of("default")), change: red, want: `
false NamespaceDenied: namespace denied: Services of namespace "a" may use only ServiceGroups that serve it (enforceNamespaces), and "default" does not; use another, or add the namespace to that group
refused: pool default, namespace_denied`},
		{name: "a Service inside asks for an address outside", request: web("4", in("a"), asking("10.0.3.2")), change: red, want: `
false NamespaceDenied: 10.0.3.2 was asked for: namespace denied: Services of namespace "a" may use only ServiceGroups that serve it (enforceNamespaces), and "default" does not; use another, or add the namespace to that group
refused: pool default, namespace_denied`},
		{name: "every group of an enforced namespace is closed", request: web("4", in("b"), of("pink")), change: red, want: `
false NamespaceDenied: namespace denied: ServiceGroup "pink" is for its own namespaces only (enforceNamespaces), and "b" is none of them; use another, or add the namespace to that group
refused: pool pink, namespace_denied`},
		{name: "but not for the others that it serves", request: web("4", in("c"), of("pink")), change: red, want: "10.0.2.1 from pink (remote)"},
		{name: "a Service keeps its address", request: web("4", in("b"), holding("10.0.1.2"), from("red", "remote")), change: red, before: []string{"b/web 10.0.1.2"}, want: "10.0.1.2 from red (remote)"},
		{name: "but gets no further address of the group", request: web("46", in("b"), of("red"), holding("10.0.1.2"), from("red", "remote")),
			change: red, before: []string{"b/web 10.0.1.2"}, want: `
10.0.1.2 from red (remote)
false NamespaceDenied: Assigned 10.0.1.2 from pool red; namespace denied: ServiceGroup "red" is for its own namespaces only (enforceNamespaces), and "b" is none of them; use another, or add the namespace to that group
refused: pool red, namespace_denied`},
		{name: "a selected namespace", request: web("4", in("b"), of("default")),
			change: only(made("red", 1, namespacesWith("team=red"), enforced), made("default", 3)), want: `
false NamespaceDenied: namespace denied: Services of namespace "b" may use only ServiceGroups that serve it (enforceNamespaces), and "default" does not; use another, or add the namespace to that group
refused: pool default, namespace_denied`},
		{name: "a group without a namespace yet", request: web("4", in("c"), of("red")),
			change: only(made("red", 1, namespacesWith("team=green"), enforced), made("default", 3)), want: `
false NamespaceDenied: namespace denied: ServiceGroup "red" is for its own namespaces only (enforceNamespaces), and "c" is none of them; use another, or add the namespace to that group
refused: pool red, namespace_denied`},
		{name: "an unknown namespace that the selector may match", request: web("4", in("new"), of("default")),
			change: only(made("red", 1, namespacesWith("team=red"), enforced), made("default", 3)), want: `
false NamespaceUnknown: the labels of namespace "new" are not known yet, so PureLB does not know which ServiceGroups are for it; it tries again when they are known
refused: pool <none>, other`},
		{name: "the boundary of an unusable group", request: web("4", in("a")), change: func(c *ipam.Cluster) {
			c.Groups.Usable = []groups.Group{made("default", 3), made("open", 4, priority(1))}
			c.Groups.Enforced = []groups.Boundary{{Namespaces: []string{"a"}, Enforce: true}}
			c.Boundaries = ipam.BoundariesOf(c.Groups, known)
		}, want: `
false NamespaceDenied: namespace denied: Services of namespace "a" may use only ServiceGroups that serve it (enforceNamespaces), and "default" does not; use another, or add the namespace to that group
refused: pool default, namespace_denied`},
		{name: "an enforced group default", request: web("4", in("c")), change: only(made("default", 1, namespaces("a"), enforced)), want: `
false NamespaceDenied: namespace denied: ServiceGroup "default" is for its own namespaces only (enforceNamespaces), and "c" is none of them; use another, or add the namespace to that group
refused: pool default, namespace_denied`},
	})
}

func TestBoundariesKnowListedNamespaces(t *testing.T) {
	c := cluster(t)
	only(made("red", 1, namespaces("a"), enforced), made("default", 2))(&c)
	c.Boundaries = ipam.Boundaries{}
	for ns, want := range map[string]string{"a": "red", "b": "default"} {
		if got := c.Choose(web("4", in(ns))).Result.From; got != want {
			t.Errorf("namespace %s gets addresses from %q, want %q", ns, got, want)
		}
	}
}
