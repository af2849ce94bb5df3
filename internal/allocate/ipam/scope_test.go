package ipam_test

import (
	"testing"

	"purelb.io/purelb/internal/groups"
)

// outside puts a group into a namespace other than PureLB's.
func outside(namespace string) option {
	return func(g *groups.Group) { g.Namespace, g.Outside = namespace, true }
}

func TestGroupsOfOtherNamespacesAreUsed(t *testing.T) {
	all := only(made("default", 1), made("web", 2), made("web", 3, outside("a")), made("db", 4, outside("a")),
		made("twin", 5, outside("a")), made("twin", 6, outside("b")))
	check(t, []example{
		{name: "by the namespace and the name", request: web("4", of("a/web")), change: all, want: "10.0.3.1 from a/web (remote)"},
		{name: "a bare name prefers the namespace of PureLB", request: web("4", of("web")), change: all, want: "10.0.2.1 from web (remote)"},
		{name: "the namespace of PureLB can be written, too", request: web("4", of("purelb-system/web")), change: all, want: "10.0.2.1 from web (remote)"},
		{name: "a bare name means the only such group elsewhere", request: web("4", of("db")), change: all, want: "10.0.4.1 from a/db (remote)"},
		{name: "a bare name of two groups elsewhere means none", request: web("4", of("twin")), change: all, want: `
false UnknownPool: unknown pool "twin": several namespaces have a ServiceGroup of that name; write one of a/twin, b/twin in the annotation purelb.io/service-group
refused: pool <unknown>, unknown_pool`},
		{name: "a full group does not affect its namesake", request: web("4", of("web")), change: all,
			before: []string{"default/x 10.0.2.1", "default/y 10.0.2.2"}, want: `
false Exhausted: pool "web" exhausted: no available addresses for default/web (IPv4)
refused: pool web, exhausted; needs IPv4 of web`},
		{name: "a full group of another namespace", request: web("4", of("a/web")), change: all,
			before: []string{"default/x 10.0.3.1", "default/y 10.0.3.2"}, want: `
false Exhausted: pool "a/web" exhausted: no available addresses for default/web (IPv4)
refused: pool a/web, exhausted; needs IPv4 of a/web`},
		{name: "a Service keeps the address of a namesake", request: web("4", of("web"), holding("10.0.3.1"), from("a/web", "remote")), change: all,
			before: []string{"default/web 10.0.3.1"}, want: `
10.0.3.1 from a/web (remote)
true Allocated: Assigned 10.0.3.1 from pool a/web; the annotation purelb.io/service-group is not in effect, as a Service keeps the addresses that it has; set purelb.io/re-evaluate: "true" to have them replaced`},
		{name: "the boundary of a group is not that of its namesake", request: web("4", of("a/web")),
			change: only(made("default", 1), made("web", 2, namespaces("c"), enforced), made("web", 3, outside("a"))), want: "10.0.3.1 from a/web (remote)"},
		{name: "the default of the namespace of PureLB comes first", request: web("4"), change: only(made("default", 1, outside("a")), made("default", 2)), want: "10.0.2.1 from default (remote)"},
		{name: "the only default of other namespaces", request: web("4"), change: only(made("default", 1, outside("a"))), want: "10.0.1.1 from a/default (remote)"},
		{name: "two defaults of other namespaces cancel each other", request: web("4"), change: only(made("default", 1, outside("a")), made("default", 2, outside("b"))), want: `
false UnknownPool: unknown pool "default": several namespaces have a ServiceGroup of that name; write one of a/default, b/default in the annotation purelb.io/service-group
refused: pool <unknown>, unknown_pool`},
	})
}
